// Rehearse an upgrade: run the recorded history of worlds under another program, and see where something else would have followed.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, Refusal, type Page, type Program, type Rehearsal, type World } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { refine, to, type Route } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { count, gist, short } from '../lib/text';
import { Badge, Commands, Confirm, Empty, Field, Loading, Problem, type Action } from '../ui/basics';
import { toast } from '../ui/toast';
import { forEach } from './world-actions';

/** Worlds that are rehearsed in one go: each takes a replay of its history. */
export const REHEARSED_MAX = 1_000;
const NAMED = 6;

interface Result {
  name: string;
  world: string;
  rehearsal?: Rehearsal;
  error?: Refusal;
}

export function Rehearse({ route }: { route: Route }) {
  const { universe } = useSession();
  const programs = useLoad((signal) => api.get<Program[]>('/v1/u/{universe}/programs', { path: { universe }, signal }), [universe]);
  if (programs.error) return <Problem error={programs.error} retry={programs.reload} />;
  if (!programs.value) return <Loading what="programs" />;
  return <Form route={route} programs={programs.value} />;
}

interface Some {
  worlds: { name: string; world: string }[];
  /** Where the next ones begin, if there may be more. */
  next: string | null;
}

async function worldsOf(universe: string, program: string, named: string[], from: string | null, signal: AbortSignal): Promise<Some> {
  if (named.length > 0) return { worlds: named.slice(0, REHEARSED_MAX).map((name) => ({ name, world: name })), next: null };
  const found: World[] = [];
  let after = from;
  do {
    const query = { program, state: 'live', after, limit: Math.min(500, REHEARSED_MAX - found.length) };
    const page: Page<World> = await api.get('/v1/u/{universe}/worlds', { path: { universe }, query, signal });
    found.push(...page.items);
    after = page.next;
  } while (after && found.length < REHEARSED_MAX);
  return { worlds: found.map((it) => ({ name: it.name ?? short(it.world), world: it.world })), next: after };
}

/** How an upgrade of many worlds goes. */
interface Upgraded {
  done: number;
  total: number;
  refused: { name: string; world: string; code: string; message: string }[];
  isOver?: boolean;
}

function Upgrades({ of: { done, total, refused, isOver }, universe }: { of: Upgraded; universe: string }) {
  return (
    <section aria-label="Upgrade">
      {!isOver && <progress value={done + refused.length} max={total} aria-label="Worlds that were upgraded" />}
      <p role="status">
        {done.toLocaleString('en-US')} of {count(total, 'world')} upgraded{refused.length > 0 ? `, ${refused.length} refused:` : '.'}
      </p>
      <ul class="refused">
        {refused.map((it) => (
          <li key={it.world}>
            <a href={to(['u', universe, 'worlds', it.world])}>{it.name}</a>: <strong>{it.code}</strong> {it.message}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Form({ route, programs }: { route: Route; programs: Program[] }) {
  const { universe } = useSession();
  const may = useMay();
  const versions = programs.flatMap((program) => program.versions.map((version) => version.name));
  const named = (route.query.get('world') ?? '').split(',').filter(Boolean);
  const of = route.query.get('of') ?? versions.find((it) => programs.some((program) => program.versions.length > 1 && it === program.versions.at(-1)!.name)) ?? versions[0] ?? '';
  const target = route.query.get('to') ?? programs.find((program) => program.name === of.split('@')[0])?.versions[0]?.name ?? '';
  const [results, setResults] = useState<Result[]>();
  const [next, setNext] = useState<string | null>(null);
  const [progress, setProgress] = useState<[number, number]>();
  const [upgraded, setUpgraded] = useState<Upgraded>();
  const [outputsOnly, setOutputsOnly] = useState(false);
  const [action, setAction] = useState<Action>();
  const [error, setError] = useState<Refusal>();
  const abort = useRef<AbortController>(undefined);
  useEffect(() => () => abort.current?.abort(), []);

  const run = async (from: string | null) => {
    abort.current?.abort();
    const { signal } = (abort.current = new AbortController());
    setError(undefined);
    setUpgraded(undefined);
    const done: Result[] = from === null ? [] : [...(results ?? [])];
    setResults(done);
    try {
      const { worlds, next } = await worldsOf(universe, of, named, from, signal);
      setNext(next);
      for (const [index, it] of worlds.entries()) {
        setProgress([index, worlds.length]);
        const body = { program: target, outputs_only: outputsOnly };
        const asked = { path: { universe, world: it.world }, body, signal };
        const result = await api.post<Rehearsal>('/v1/u/{universe}/worlds/{world}/rehearse', asked).then(
          (rehearsal): Result => ({ ...it, rehearsal }),
          (refusal): Result => ({ ...it, error: refusal as Refusal }),
        );
        if (signal.aborted) return;
        done.push(result);
        setResults([...done]);
      }
    } catch (refusal) {
      if (!signal.aborted) setError(refusal as Refusal);
    }
    setProgress(undefined);
  };
  const good = (results ?? []).filter((it) => it.rehearsal && !it.rehearsal.divergence);
  const bad = (results ?? []).filter((it) => it.rehearsal?.divergence || it.error);
  const upgrade = (chosen: Result[], forced: boolean): Action => ({
    label: forced ? 'Upgrade all the same' : 'Upgrade',
    title: `Upgrade ${count(chosen.length, 'world')} to ${target}`,
    danger: forced,
    consequence: <p>From their next record on they run {target}. Their past stays as it is, and is replayed by what they ran then.{forced && ' The rehearsal found that they would have behaved differently.'}</p>,
    command: forEach(chosen, command(universe, ['world', 'upgrade', 'WORLD', '--program', target, forced && '--force'], 'POST', '/v1/u/{universe}/worlds/{world}/upgrade', { path: { universe, world: 'WORLD' }, body: { program: target, forced } })),
    // It is seen on the page how far it is: the dialog is not in the way.
    run: async () => void upgradeAll(chosen, forced),
  });
  const upgradeAll = async (chosen: Result[], forced: boolean) => {
    const now: Upgraded = { done: 0, total: chosen.length, refused: [] };
    setUpgraded(now);
    // One that refuses does not keep the others from it.
    for (const it of chosen) {
      try {
        await api.post('/v1/u/{universe}/worlds/{world}/upgrade', { path: { universe, world: it.world }, body: { program: target, forced } });
        now.done += 1;
      } catch (refusal) {
        const { code, message, isUnreachable } = refusal as Refusal;
        now.refused.push({ name: it.name, world: it.world, code, message });
        if (isUnreachable) break;
      }
      setUpgraded({ ...now });
    }
    setUpgraded({ ...now, isOver: true });
    toast(`${count(now.done, 'world')} upgraded to ${target}${now.refused.length > 0 ? `, ${now.refused.length} refused` : ''}`);
  };
  return (
    <div>
      <header class="screen-head">
        <h1>Rehearse an upgrade</h1>
      </header>
      <p class="prose">The recorded history of each world is run again under the new program, and compared record by record. Nothing is changed, and nothing leaves the server.</p>
      <form class="panel pad inline" onSubmit={(event) => (event.preventDefault(), void run(null))}>
        {named.length > 0 ? (
          <Field label="Worlds">
            <input type="text" value={`${named.slice(0, NAMED).join(', ')}${named.length > NAMED ? ` and ${named.length - NAMED} more` : ''}`} readOnly />
          </Field>
        ) : (
          <Field label="All live worlds that run">
            <select value={of} onChange={(event) => refine({ of: event.currentTarget.value })}>
              {versions.map((it) => (
                <option key={it}>{it}</option>
              ))}
            </select>
          </Field>
        )}
        <Field label="Under the program">
          <select value={target} onChange={(event) => refine({ to: event.currentTarget.value })}>
            {versions.map((it) => (
              <option key={it}>{it}</option>
            ))}
          </select>
        </Field>
        <label class="check">
          <input type="checkbox" checked={outputsOnly} onChange={(event) => setOutputsOnly(event.currentTarget.checked)} /> compare effects and replies only, not cells
        </label>
        <button type="submit" class="primary" disabled={progress !== undefined}>
          {progress ? `Rehearsing ${progress[0]} of ${progress[1]}…` : 'Rehearse'}
        </button>
      </form>
      {progress && <progress value={progress[0]} max={progress[1]} aria-label="Worlds that were rehearsed" />}
      {error && <Problem error={error} />}
      {results && !progress && results.length === 0 && !error && <Empty title={`No live world runs ${of}`}>Choose another program, or create a world.</Empty>}
      {results && results.length > 0 && (
        <>
          <p class="verdict" role="status">
            <Badge of="same">{good.length} the same</Badge> <Badge of={bad.length > 0 ? 'diverges' : 'archived'}>{bad.length} different</Badge>
          </p>
          {named.length > REHEARSED_MAX && <p class="mute">The first {REHEARSED_MAX.toLocaleString('en-US')} of {named.length.toLocaleString('en-US')} worlds are rehearsed.</p>}
          {next !== null && !progress && (
            <p class="row">
              <span>These are the first {count(results.length, 'world')} that run {of}; there are more.</span>
              <button type="button" onClick={() => void run(next)}>
                Rehearse the next {REHEARSED_MAX.toLocaleString('en-US')}
              </button>
            </p>
          )}
          {upgraded && <Upgrades of={upgraded} universe={universe} />}
          {may('admin') && !progress && (!upgraded || upgraded.isOver) && (
            <p class="row">
              {good.length > 0 && (
                <button type="button" class="primary" onClick={() => setAction(upgrade(good, false))}>
                  Upgrade the {good.length} that stay the same
                </button>
              )}
              {bad.some((it) => it.rehearsal) && (
                <button type="button" class="danger-quiet" onClick={() => setAction(upgrade(bad.filter((it) => it.rehearsal), true))}>
                  Upgrade the others all the same
                </button>
              )}
            </p>
          )}
          <div class="scroll panel" tabIndex={0} role="region" aria-label="Results">
            <table>
              <thead>
                <tr>
                  <th>World</th>
                  <th>Result</th>
                  <th>Records compared</th>
                  <th>Recorded</th>
                  <th>Under {target}</th>
                </tr>
              </thead>
              <tbody>
                {[...bad, ...good].map((it) => (
                  <tr key={it.world}>
                    <td>
                      <a href={to(['u', universe, 'worlds', it.world])}>{it.name}</a>
                    </td>
                    <td>
                      {it.error ? (
                        <span class="error-text">
                          {it.error.code}: {it.error.message}
                        </span>
                      ) : it.rehearsal!.divergence ? (
                        <a href={to(['u', universe, 'worlds', it.world], { at: it.rehearsal!.divergence.height, tab: 'record' })}>
                          <Badge of="diverges">differs at {it.rehearsal!.divergence.height}</Badge>
                        </a>
                      ) : (
                        <Badge of="same" />
                      )}
                    </td>
                    <td>{it.rehearsal?.records.toLocaleString('en-US')}</td>
                    <td class="mono">{gist(it.rehearsal?.divergence?.recorded, 120)}</td>
                    <td class="mono">{gist(it.rehearsal?.divergence?.candidate, 120)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {action && <Confirm action={action} close={() => setAction(undefined)} />}
      <Commands of={command(universe, ['world', 'replay', ...(named.length > 0 ? [named[0]!] : ['--all', '--of', of]), '--program', target], 'POST', '/v1/u/{universe}/worlds/{world}/rehearse', { path: { universe, world: named[0] ?? 'WORLD' }, body: { program: target } })} />
    </div>
  );
}
