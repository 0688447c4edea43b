// How a universe is doing: what needs a person first, then counts, throughput and workers.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, type Page, type Query, type Summary, type Worker, type World } from '../api/client';
import { useCalm, useChanges, useEvents } from '../api/changes';
import { useLoad } from '../api/use';
import { watchMetrics, type Sample } from '../lib/metrics';
import { to } from '../lib/route';
import { useMay, useSession, useUniverses } from '../lib/session';
import { mundi } from '../lib/commands';
import { count, short } from '../lib/text';
import { waiting } from '../lib/time';
import { Badge, Copy, Loading, Problem, Time } from '../ui/basics';
import { Chart } from '../ui/chart';

/** Worlds that home lists. */
const ACTIVE = 6;
/** Worlds of each kind that need a person, of which home says why. */
const NAMED = 5;
/** A page ends after a number of looks, whether it found something or not: so many pages are asked for. */
const PAGES_MAX = 20;
/** The summary reads every world: it is not asked for more often than this, however much happens. */
const CALM_MS = 5_000;
const UNIVERSES_MAX = 20;

export function Home() {
  const { universe } = useSession();
  const may = useMay();
  const any = useCalm(useChanges(universe, 'worlds', 'dead_letters', 'timers'), CALM_MS);
  const ofWorlds = useCalm(useChanges(universe, 'worlds'), CALM_MS);
  const ofWorkers = useChanges(universe, 'workers');
  // No event says that an effect was asked for, that a step failed or that a world came into memory: those are counted again from time to time.
  const summary = useLoad((signal) => api.get<Summary>('/v1/u/{universe}/summary', { path: { universe }, signal }), [universe], 15_000, any);
  const held = useLoad((signal) => search(universe, { state: 'on_hold' }, signal), [universe], undefined, ofWorlds);
  // No index has the failed ones: they are looked for only where the summary counted some, or could not count all.
  const mayHaveFailed = summary.value && (summary.value.worlds.failed > 0 || summary.value.worlds.more);
  const failed = useLoad(
    async (signal) => (mayHaveFailed ? search(universe, { failed: true, on_hold: false }, signal) : { worlds: [], more: false }),
    [universe, mayHaveFailed],
    15_000,
    ofWorlds,
  );
  const active = useLoad((signal) => list(universe, { sort: 'active', limit: ACTIVE }, signal), [universe], 15_000, ofWorlds);
  const [fresh, setFresh] = useState<Set<string>>(new Set());
  useEvents(universe, ({ worlds }) => worlds.length > 0 && setFresh(new Set(worlds.map(({ world }) => world))));
  const workers = useLoad((signal) => api.get<Worker[]>('/v1/u/{universe}/workers', { path: { universe }, signal }), [universe], 15_000, ofWorkers);
  if (summary.error && !summary.value) return <Problem error={summary.error} retry={summary.reload} />;
  if (!summary.value) return <Loading what="the universe" />;
  const { worlds, ...queues } = summary.value;
  const more = worlds.more ? '+' : '';
  // As the workers said with their last heartbeat.
  const atWork = (workers.value ?? []).reduce((sum, worker) => sum + worker.worlds, 0);
  const card = (value: number, label: string, address: string, tone = '', mark = '') => (
    <li>
      <a class={`card ${value > 0 ? tone : ''}`} href={address}>
        <span class="card-value">
          {value.toLocaleString('en-US')}
          {mark}
        </span>
        <span class="card-label">{label}</span>
      </a>
    </li>
  );
  return (
    <div class="home">
      <header class="screen-head">
        <h1>{universe}</h1>
        <span class="mute">a universe of {count(worlds.total, 'world')}{more}</span>
      </header>
      {worlds.total === 0 && <Welcome />}
      {(held.error ?? failed.error) && <Problem error={(held.error ?? failed.error)!} />}
      {held.value && failed.value && <Needs held={held.value} failed={failed.value} letters={queues.dead_letters} />}
      <ul class="cards-row">
        {card(worlds.total, 'worlds', to(['u', universe, 'worlds']), '', more)}
        {card(worlds.held, 'in memory', to(['u', universe, 'worlds'], { held: 'anybody' }), 'good', more)}
        {card(worlds.waiting, 'waiting', to(['u', universe, 'worlds'], { sort: 'active' }), '', worlds.waiting_more ? '+' : '')}
        {card(atWork, 'at work', to(['u', universe, 'worlds'], { sort: 'active' }), 'good')}
        {card(worlds.paused, 'paused', to(['u', universe, 'worlds'], { state: 'paused' }), 'warn', more)}
        {card(worlds.on_hold, 'on hold', to(['u', universe, 'worlds'], { state: 'on_hold' }), 'bad', more)}
        {card(queues.effects_pending + queues.effects_waiting + queues.effects_claimed, 'open effects', to(['u', universe, 'effects']), 'warn')}
        {card(queues.timers, 'timers', to(['u', universe, 'timers']))}
        {card(queues.dead_letters, 'dead letters', to(['u', universe, 'dead-letters']), 'bad')}
      </ul>
      {(active.value ?? []).length > 0 && <Active worlds={active.value!} fresh={fresh} />}
      {may('metrics') && <Charts />}
      <section>
        <h2>Workers</h2>
        <Workers workers={workers.value ?? []} />
      </section>
      <Universes />
    </div>
  );
}

async function list(universe: string, query: Query, signal: AbortSignal): Promise<World[]> {
  return (await api.get<Page<World>>('/v1/u/{universe}/worlds', { path: { universe }, query: { limit: 5, ...query }, signal })).items;
}

interface Found {
  worlds: World[];
  /** There are, or may be, others. */
  more: boolean;
}

/** The first worlds that a filter names, from as many pages as it takes: one that names few may end before it found any. */
async function search(universe: string, query: Query, signal: AbortSignal): Promise<Found> {
  const worlds: World[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX && worlds.length <= NAMED; page += 1) {
    const found: Page<World> = await api.get('/v1/u/{universe}/worlds', { path: { universe }, query: { ...query, after, limit: NAMED + 1 }, signal });
    worlds.push(...found.items);
    after = found.next;
    if (after === null) break;
  }
  return { worlds: worlds.slice(0, NAMED), more: after !== null || worlds.length > NAMED };
}

/** The worlds that were opened or released last, and which of them the last event named. */
function Active({ worlds, fresh }: { worlds: World[]; fresh: Set<string> }) {
  const { universe } = useSession();
  return (
    <section>
      <h2>Worlds that were active last</h2>
      <div class="scroll panel" tabIndex={0} role="region" aria-label="Worlds that were active last">
        <table>
          <thead>
            <tr>
              <th>World</th>
              <th>State</th>
              <th>Program</th>
              <th>Records</th>
              <th>Last active</th>
              <th>Waits</th>
            </tr>
          </thead>
          <tbody>
            {worlds.map((world) => (
              <tr key={world.world}>
                <td>
                  <a href={to(['u', universe, 'worlds', world.name ?? world.world])}>{world.name ?? short(world.world)}</a>
                  {fresh.has(world.world) && <span class="mute"> just changed</span>}
                </td>
                <td>
                  <Badge of={world.state} />
                </td>
                <td>{world.program ?? short(world.manifest, 12)}</td>
                <td>{(world.head ?? 0).toLocaleString('en-US')}</td>
                <td>{world.active_at ? <Time at={world.active_at} /> : 'never'}</td>
                <td>{waiting(world) ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="after">
        <a href={to(['u', universe, 'worlds'], { sort: 'active' })}>All worlds, the last active first</a>
      </p>
    </section>
  );
}

function Needs({ held, failed, letters }: { held: Found; failed: Found; letters: number }) {
  const { universe } = useSession();
  if (held.worlds.length + failed.worlds.length + letters === 0) {
    return held.more || failed.more ? (
      <p class="needs" role="status">
        Nothing that needs a person was found among the first worlds. There are more than were looked at: <a href={to(['u', universe, 'worlds'], { trouble: 'failed' })}>look at all of them</a>.
      </p>
    ) : (
      <p class="needs good" role="status">
        Nothing needs a person.
      </p>
    );
  }
  const all = (of: Found, query: Record<string, string>, what: string) =>
    of.more && (
      <li>
        <a href={to(['u', universe, 'worlds'], query)}>
          {of.worlds.length === 0 ? 'Look for' : 'More'} {what}
        </a>
      </li>
    );
  const link = (world: World) => <a href={to(['u', universe, 'worlds', world.name ?? world.world], { at: (world.hold ?? world.failed)?.height, tab: 'record' })}>{world.name ?? short(world.world)}</a>;
  return (
    <section class="needs bad">
      <h2>What needs a person</h2>
      <ul>
        {held.worlds.map((world) => (
          <li key={world.world}>
            <Badge of="on_hold" /> {link(world)}: <strong>{world.hold?.code}</strong> {world.hold?.reason} <span class="mute"><Time at={world.hold?.since} /></span>
          </li>
        ))}
        {all(held, { state: 'on_hold' }, 'worlds on hold')}
        {failed.worlds.map((world) => (
          <li key={world.world}>
            <Badge of="failed">step failed</Badge> {link(world)}: <strong>{world.failed?.code}</strong> {world.failed?.reason} <span class="mute"><Time at={world.failed?.at} /></span>
          </li>
        ))}
        {all(failed, { trouble: 'failed' }, 'worlds with failed steps')}
        {letters > 0 && (
          <li>
            <Badge of="dead_letter" /> <a href={to(['u', universe, 'dead-letters'])}>{count(letters, 'item')} that a queue gave up on</a>
          </li>
        )}
      </ul>
    </section>
  );
}

function Welcome() {
  const { universe } = useSession();
  const may = useMay();
  const create = mundi(universe, 'world', 'create', 'first', '--program', 'counter');
  return (
    <section class="panel pad welcome">
      <h2>Welcome. Create a first world.</h2>
      <p>A world is a durable program. Everything that it is told goes into its journal, so you can look at any moment of its past, and branch a new future from there.</p>
      <p class="row">
        {may('send') && (
          <a class="button primary" href={to(['u', universe, 'worlds'], { new: 1 })}>
            New world
          </a>
        )}
        <code>{create}</code>
        <Copy text={create} what="command" />
      </p>
    </section>
  );
}

function Charts() {
  const [samples, set] = useState<Sample[]>([]);
  useEffect(() => watchMetrics(set), []);
  const times = useMemo(() => samples.map((sample) => sample.at), [samples]);
  const of = (name: keyof Sample) => samples.map((sample) => sample[name]);
  return (
    <section>
      <h2>Since this page was opened</h2>
      <div class="charts">
        <Chart title="Records written" unit="a second" times={times} values={useMemo(() => of('recordsPerSecond'), [samples])} />
        <Chart title="Inbox to journal (p95)" unit="ms" times={times} values={useMemo(() => of('journalMs95'), [samples])} />
        <Chart title="Requests" unit="a second" times={times} values={useMemo(() => of('requestsPerSecond'), [samples])} />
        <Chart title="Effect failures" unit="a minute" times={times} values={useMemo(() => of('effectFailuresPerMinute'), [samples])} />
      </div>
    </section>
  );
}

interface Counted {
  name: string;
  summary?: Summary;
}

/** All universes that the token may see, one after the other: each is counted by reading its worlds. */
function Universes() {
  const { universe } = useSession();
  const names = useUniverses();
  const shown = names.slice(0, UNIVERSES_MAX);
  const [counted, set] = useState<Counted[]>([]);
  useEffect(() => {
    if (names.length < 2) return;
    const abort = new AbortController();
    const count = async () => {
      const found: Counted[] = [];
      for (const name of shown) {
        const summary = await api.get<Summary>('/v1/u/{universe}/summary', { path: { universe: name }, signal: abort.signal }).catch(() => undefined);
        if (abort.signal.aborted) return;
        found.push({ name, summary });
        set([...found]);
      }
    };
    void count();
    return () => abort.abort();
  }, [JSON.stringify(names)]);
  if (names.length < 2) return null;
  return (
    <section>
      <h2>Universes</h2>
      <div class="scroll panel" tabIndex={0} role="region" aria-label="Universes">
        <table>
          <thead>
            <tr>
              <th>Universe</th>
              <th>Worlds</th>
              <th>In memory</th>
              <th>Paused</th>
              <th>On hold</th>
              <th>Failed steps</th>
              <th>Dead letters</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((name) => {
              const of = counted.find((it) => it.name === name)?.summary;
              const number = (value: number | undefined) => (value === undefined ? '…' : `${value.toLocaleString('en-US')}${of?.worlds.more ? '+' : ''}`);
              return (
                <tr key={name}>
                  <td>
                    <a href={to(['u', name])} aria-current={name === universe ? 'true' : undefined}>
                      {name}
                    </a>
                  </td>
                  <td>{number(of?.worlds.total)}</td>
                  <td>{number(of?.worlds.held)}</td>
                  <td>{number(of?.worlds.paused)}</td>
                  <td class={of?.worlds.on_hold ? 'bad-text' : ''}>{number(of?.worlds.on_hold)}</td>
                  <td class={of?.worlds.failed ? 'bad-text' : ''}>{number(of?.worlds.failed)}</td>
                  <td class={of?.dead_letters ? 'bad-text' : ''}>{of === undefined ? '…' : of.dead_letters.toLocaleString('en-US')}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {names.length > shown.length && <p class="mute after">and {names.length - shown.length} more, in the list of universes at the top left</p>}
    </section>
  );
}

export function Workers({ workers, children }: { workers: Worker[]; children?: (worker: Worker) => preact.ComponentChildren }) {
  return (
    <div class="scroll panel" tabIndex={0} role="region" aria-label="Workers">
      <table>
        <thead>
          <tr>
            <th>Worker</th>
            <th>State</th>
            <th>Roles</th>
            <th>Load</th>
            <th>Started</th>
            <th>Heartbeat expires</th>
            <th>Address</th>
            {children && (
              <th>
                <span class="sr">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={worker.worker}>
              <td>
                <code>{short(worker.worker, 16)}</code> <Copy text={worker.worker} />
              </td>
              <td>{worker.draining ? <Badge of="draining" /> : <Badge of="live" />}</td>
              <td>{worker.roles?.join(', ') ?? '–'}</td>
              <td>
                <meter min={0} max={worker.worlds_max} value={worker.worlds} aria-label="Load" /> {worker.worlds} of {worker.worlds_max.toLocaleString('en-US')} busy worlds
              </td>
              <td>
                <Time at={worker.started_at} />
              </td>
              <td>
                <Time at={worker.expires_at} />
              </td>
              <td>{worker.address ?? '–'}</td>
              {children && <td>{children(worker)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {workers.length === 0 && <p class="empty">No worker has said that it lives.</p>}
    </div>
  );
}
