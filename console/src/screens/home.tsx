// How a universe is doing: what needs a person first, then counts, throughput and workers.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, type Page, type Query, type Summary, type Worker, type World } from '../api/client';
import { useChanges, useEvents } from '../api/changes';
import { useLoad } from '../api/use';
import { watchMetrics, type Sample } from '../lib/metrics';
import { to } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { mundi } from '../lib/commands';
import { count, short } from '../lib/text';
import { waiting } from '../lib/time';
import { Badge, Copy, Loading, Problem, Time } from '../ui/basics';
import { Chart } from '../ui/chart';

/** Worlds that home lists. */
const ACTIVE = 6;

export function Home() {
  const { universe } = useSession();
  const may = useMay();
  const any = useChanges(universe, 'worlds', 'dead_letters', 'timers');
  const ofWorlds = useChanges(universe, 'worlds');
  const ofWorkers = useChanges(universe, 'workers');
  // No event says that an effect was asked for, that a step failed or that a world came into memory: those are counted again from time to time.
  const summary = useLoad((signal) => api.get<Summary>('/v1/u/{universe}/summary', { path: { universe }, signal }), [universe], 15_000, any);
  const held = useLoad((signal) => list(universe, { on_hold: true }, signal), [universe], undefined, ofWorlds);
  const failed = useLoad((signal) => list(universe, { failed: true }, signal), [universe], 15_000, ofWorlds);
  const active = useLoad((signal) => list(universe, { sort: 'active', limit: ACTIVE }, signal), [universe], 15_000, ofWorlds);
  const [fresh, setFresh] = useState<Set<string>>(new Set());
  useEvents(universe, ({ worlds }) => worlds.length > 0 && setFresh(new Set(worlds.map(({ world }) => world))));
  const workers = useLoad((signal) => api.get<Worker[]>('/v1/u/{universe}/workers', { path: { universe }, signal }), [universe], 15_000, ofWorkers);
  if (summary.error && !summary.value) return <Problem error={summary.error} retry={summary.reload} />;
  if (!summary.value) return <Loading what="the universe" />;
  const { worlds, ...queues } = summary.value;
  const more = worlds.more ? '+' : '';
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
      <Needs held={held.value ?? []} failed={failed.value ?? []} letters={queues.dead_letters} />
      <ul class="cards-row">
        {card(worlds.total, 'worlds', to(['u', universe, 'worlds']), '', more)}
        {card(worlds.held, 'in memory', to(['u', universe, 'worlds'], { held: 'anybody' }), 'good', more)}
        {card(worlds.forks, 'forks', to(['u', universe, 'worlds']), '', more)}
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
    </div>
  );
}

async function list(universe: string, query: Query, signal: AbortSignal): Promise<World[]> {
  return (await api.get<Page<World>>('/v1/u/{universe}/worlds', { path: { universe }, query: { limit: 5, ...query }, signal })).items;
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

function Needs({ held, failed, letters }: { held: World[]; failed: World[]; letters: number }) {
  const { universe } = useSession();
  const others = failed.filter((world) => !held.some((it) => it.world === world.world));
  if (held.length + others.length + letters === 0) {
    return (
      <p class="needs good" role="status">
        Nothing needs a person.
      </p>
    );
  }
  const link = (world: World) => <a href={to(['u', universe, 'worlds', world.name ?? world.world], { at: (world.hold ?? world.failed)?.height, tab: 'record' })}>{world.name ?? short(world.world)}</a>;
  return (
    <section class="needs bad">
      <h2>What needs a person</h2>
      <ul>
        {held.map((world) => (
          <li key={world.world}>
            <Badge of="on_hold" /> {link(world)}: <strong>{world.hold?.code}</strong> {world.hold?.reason} <span class="mute"><Time at={world.hold?.since} /></span>
          </li>
        ))}
        {others.map((world) => (
          <li key={world.world}>
            <Badge of="failed">step failed</Badge> {link(world)}: <strong>{world.failed?.code}</strong> {world.failed?.reason} <span class="mute"><Time at={world.failed?.at} /></span>
          </li>
        ))}
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
        <Chart title="From inbox to journal (p95)" unit="ms" times={times} values={useMemo(() => of('journalMs95'), [samples])} />
        <Chart title="Requests" unit="a second" times={times} values={useMemo(() => of('requestsPerSecond'), [samples])} />
      </div>
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
