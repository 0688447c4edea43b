// Durable functions of a world: their state, what each waits for and since when, every await on record; pause and cancel.
import { useState } from 'preact/hooks';
import { api, type FunctionAwait, type FunctionDescription, type FunctionInstance, type Page } from '../../api/client';
import { useLoad, useNow, type Loaded } from '../../api/use';
import { command } from '../../lib/commands';
import { refine, to } from '../../lib/route';
import { useMay, useSession } from '../../lib/session';
import { count, gist } from '../../lib/text';
import { duration } from '../../lib/time';
import { Badge, Commands, Confirm, Empty, Loading, Problem, Time, type Action } from '../../ui/basics';
import { Value } from '../../ui/json';
import { toast } from '../../ui/toast';

const LIST = '/v1/u/{universe}/worlds/{world}/functions';
const LIST_MAX = 200;
const ONE = '/v1/u/{universe}/worlds/{world}/functions/{instance}';

export interface FunctionsAt {
  /** The world that has the records of this height: the world itself, or an ancestor of a fork. */
  owner: string;
  /** The API's `at`: state before this height. Not given: the state now. */
  before?: number;
}

/** The past does not change; the present is asked for from time to time. */
export function useFunctions({ owner, before }: FunctionsAt, isShown: boolean): Loaded<Page<FunctionInstance>> {
  const { universe } = useSession();
  const everyMs = before !== undefined ? undefined : isShown ? 2_000 : 10_000;
  return useLoad((signal) => api.get<Page<FunctionInstance>>(LIST, { path: { universe, world: owner }, query: { at: before, limit: LIST_MAX }, signal }), [universe, owner, before], everyMs);
}

interface Props {
  world: string;
  at: FunctionsAt;
  found: Loaded<Page<FunctionInstance>>;
  /** The instance that the address names. */
  opened: string | null;
  select: (height: number) => void;
}

export function FunctionsPanel({ world, at, found, opened, select }: Props) {
  const { universe } = useSession();
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="functions" />;
  const { next } = found.value;
  // Those that go on stand first; otherwise the order of their names.
  const items = [...found.value.items].sort((a, b) => Number(b.state === 'running') - Number(a.state === 'running'));
  const isPast = at.before !== undefined;
  if (items.length === 0) {
    return (
      <Empty title={isPast ? 'No function had started at this height' : 'No durable function runs here'}>
        A program that declares durable functions starts one for each key. They appear here with what they wait for.
      </Empty>
    );
  }
  return (
    <div class="functions">
      {isPast && <p class="mute">As they were at this height. Follow the newest record to pause or cancel one.</p>}
      <ul class="cards" aria-label="Durable functions">
        {items.map((it) => (
          <li key={it.instance}>
            <Instance world={world} at={at} it={it} isOpen={opened === it.instance} reload={found.reload} select={select} />
          </li>
        ))}
      </ul>
      {next !== null && items.length === LIST_MAX && <p class="mute">Only the first {LIST_MAX} are shown; `mundi function list` pages through all of them.</p>}
      <Commands of={command(universe, isPast ? undefined : ['function', 'list', world], 'GET', LIST, { path: { universe, world: at.owner }, query: { at: at.before } })} />
    </div>
  );
}

function Instance({ world, at, it, isOpen, reload, select }: { world: string; at: FunctionsAt; it: FunctionInstance; isOpen: boolean; reload: () => void; select: (height: number) => void }) {
  const isPast = at.before !== undefined;
  const error = it.error as { code?: string; message?: string } | null;
  return (
    <>
      <p class="row">
        <strong>{it.instance}</strong>
        <Badge of={it.state} />
        {it.paused && <Badge of="paused" />}
        <span class="mute">
          {count(it.awaits, 'await')}
          {it.run > 0 && `, started over ${count(it.run, 'time')}`}
        </span>
      </p>
      {it.status !== null && (
        <p>
          says: <span class="mono">{gist(it.status, 160)}</span>
        </p>
      )}
      {it.state === 'running' && it.waits.map((wait) => <Waits key={wait.number} wait={wait} isPast={isPast} />)}
      {error?.code && (
        <p class="bad-text">
          {error.code}: {error.message}
        </p>
      )}
      {it.state === 'done' && <p class="mono">{gist(it.result, 160)}</p>}
      <p class="mute">
        began <Time at={it.began} />
        {it.ended && (
          <>
            , ended <Time at={it.ended} />
          </>
        )}
      </p>
      <div class="row">
        <button type="button" aria-expanded={isOpen} onClick={() => refine({ instance: isOpen ? undefined : it.instance })}>
          {isOpen ? 'Hide the awaits' : 'Show the awaits'}
        </button>
        {!isPast && it.state === 'running' && <InstanceActions world={world} it={it} done={reload} />}
      </div>
      {isOpen && <Awaits world={world} at={at} instance={it.instance} select={select} />}
    </>
  );
}

const NOUNS: Record<string, string> = { effect: 'the effect', timer: 'the timer', event: 'the event', signal: 'the signal', child: 'the child' };

function Waits({ wait, isPast }: { wait: FunctionInstance['waits'][number]; isPast: boolean }) {
  const now = useNow();
  const waited = Math.max(0, now - Date.parse(wait.since));
  return (
    <p class="waits">
      waits for {NOUNS[wait.kind] ?? wait.kind} <strong>{wait.name}</strong> (await {wait.number}) {isPast ? <>since <Time at={wait.since} as="full" /></> : <>for {duration(waited)}</>}
    </p>
  );
}

function InstanceActions({ world, it, done }: { world: string; it: FunctionInstance; done: () => void }) {
  const { universe } = useSession();
  const may = useMay();
  const [action, setAction] = useState<Action>();
  if (!may('send')) return null;
  const path = { universe, world, instance: it.instance };
  const reason = 'cancelled in the console';
  const cancel: Action = {
    label: 'Cancel the function',
    title: `Cancel ${it.instance}`,
    danger: true,
    consequence: (
      <p>
        What it waits for ends with <code>FUNCTION_CANCELLED</code>, and the function may clean up before it ends. What the outside has already done is not undone by itself.
      </p>
    ),
    command: command(universe, ['function', 'cancel', world, it.instance, '--reason', reason], 'DELETE', ONE, { path, query: { reason } }),
    run: async () => {
      const { state } = await api.delete<{ state: string }>(ONE, { path, query: { reason } });
      toast(state === 'running' ? `${it.instance} cleans up` : `${it.instance} is ${state}`);
    },
  };
  const pause: Action = {
    label: it.paused ? 'Resume' : 'Pause',
    title: `${it.paused ? 'Resume' : 'Pause'} ${it.instance}`,
    consequence: <p>{it.paused ? 'It goes on with what came in meanwhile.' : 'It keeps what comes in, and does not go on. Other functions of the world are not affected.'}</p>,
    command: command(universe, ['function', it.paused ? 'resume' : 'pause', world, it.instance], 'PUT', ONE, { path, query: { paused: !it.paused } }),
    run: () => api.put(ONE, { path, query: { paused: !it.paused } }),
  };
  return (
    <>
      <button type="button" onClick={() => setAction(pause)}>
        {pause.label}
      </button>
      <button type="button" class="danger-quiet" onClick={() => setAction(cancel)}>
        Cancel
      </button>
      {action && <Confirm action={action} close={(was) => (setAction(undefined), was && done())} />}
    </>
  );
}

function Awaits({ world, at, instance, select }: { world: string; at: FunctionsAt; instance: string; select: (height: number) => void }) {
  const { universe } = useSession();
  const may = useMay();
  const path = { universe, world: at.owner, instance };
  const found = useLoad((signal) => api.get<FunctionDescription>(ONE, { path, query: { at: at.before }, signal }), [path, at.before], at.before === undefined ? 2_000 : undefined);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="awaits" />;
  const { input, log, result, state } = found.value;
  return (
    <section aria-label={`Awaits of ${instance}`}>
      <h2>Input</h2>
      <Value value={input} />
      {log.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`The awaits of ${instance}`}>
          <table>
            <thead>
              <tr>
                <th>Await</th>
                <th>State</th>
                <th>Asked</th>
                <th>Ended</th>
                <th>Took</th>
                <th>Value</th>
                {may('send') && <th>Try again</th>}
              </tr>
            </thead>
            <tbody>
              {log.map((it) => (
                <Await key={it.number} it={it} select={select} fork={may('send') ? to(['u', universe, 'worlds', world, 'fork'], { await: `${instance}/${it.number}` }) : undefined} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {state === 'done' && (
        <>
          <h2>Result</h2>
          <Value value={result} />
        </>
      )}
    </section>
  );
}

/** One that ended in the step that asked for it leaves no height between the two, and one that was cancelled has no result. */
function canFork({ state, asked_at, ended_at }: FunctionAwait): boolean {
  return state === 'open' || (ended_at !== null && ended_at !== undefined && ended_at !== asked_at);
}

function Await({ it, select, fork }: { it: FunctionAwait; select: (height: number) => void; fork?: string }) {
  const height = (at: number | null | undefined) =>
    at === null || at === undefined ? (
      <span class="mute">–</span>
    ) : (
      <button type="button" class="link" onClick={() => select(at)}>
        height {at}
      </button>
    );
  return (
    <tr>
      <td>
        {it.number} {it.kind} <strong>{it.name}</strong>
        {(it.attempts ?? 0) > 1 && <span class="mute"> asked {it.attempts} times</span>}
      </td>
      <td>
        <Badge of={it.state} />
      </td>
      <td>{height(it.asked_at)}</td>
      <td>{height(it.ended_at)}</td>
      <td>{it.ended ? duration(Date.parse(it.ended) - Date.parse(it.asked)) : <span class="mute">–</span>}</td>
      <td class="mono">{gist(it.value, 60)}</td>
      {fork !== undefined && <td>{canFork(it) && <a href={fork}>{it.state === 'open' ? 'Answer it in a fork' : 'Fork with another answer'}</a>}</td>}
    </tr>
  );
}
