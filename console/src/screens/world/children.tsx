// Children that a world dispatched: the phase of each, what it may spend and has spent, its events; cancel.
import { useState } from 'preact/hooks';
import { api, type Budget, type Child, type Page } from '../../api/client';
import { useLoad, type Loaded } from '../../api/use';
import { command } from '../../lib/commands';
import { refine, to } from '../../lib/route';
import { useMay, useSession } from '../../lib/session';
import { gist } from '../../lib/text';
import { Badge, Commands, Confirm, Empty, Id, Loading, Problem, Time, type Action } from '../../ui/basics';
import { Pager } from '../effects';
import { toast } from '../../ui/toast';

const W = '/v1/u/{universe}/worlds/{world}';
const PHASES = ['queued', 'leased', 'started', 'terminal'];

/** Phases change without a record of the world: they are asked for from time to time. */
export function useChildren(world: string, after: string | undefined, isShown: boolean): Loaded<Page<Child>> {
  const { universe } = useSession();
  return useLoad((signal) => api.get<Page<Child>>(`${W}/children`, { path: { universe, world }, query: { after, limit: 50 }, signal }), [universe, world, after], isShown ? 2_000 : 10_000);
}

interface Props {
  world: string;
  found: Loaded<Page<Child>>;
  after: string[];
  page: (after: string[]) => void;
  /** The child that the address names. */
  opened: string | null;
  select: (height: number) => void;
}

export function ChildrenPanel({ world, found, after, page, opened, select }: Props) {
  const { universe } = useSession();
  const budget = useLoad((signal) => api.get<Budget>(`${W}/budget`, { path: { universe, world }, signal }), [universe, world], 3_000);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="children" />;
  const changed = () => (found.reload(), budget.reload());
  return (
    <div class="children">
      {budget.value && <Lanes budget={budget.value} />}
      {found.value.items.length === 0 ? (
        <Empty title="No child">A child is a process, an external worker or another run that this world dispatched. It appears here when it is spawned.</Empty>
      ) : (
        <ul class="cards" aria-label="Children">
          {found.value.items.map((child) => (
            <li key={child.child_id}>
              <One world={world} child={child} isOpen={opened === child.child_id} changed={changed} select={select} />
            </li>
          ))}
        </ul>
      )}
      <Pager after={after} next={found.value.next} change={page} />
      <Commands of={command(universe, ['world', 'child', 'list', world], 'GET', `${W}/children`, { path: { universe, world } })} />
    </div>
  );
}

const LANES: Record<string, string> = { solver_calls: 'solver calls', duration_secs: 'seconds' };
const lane = (name: string) => LANES[name] ?? name;

/** What a program calls it; one that an operator spawned has no name but that of the request. */
const nameOf = (child: Child) => (child.label && !child.label.startsWith('request:') ? child.label : `${child.kind} ${child.queue_seq}`);

function Lanes({ budget }: { budget: Budget }) {
  return (
    <section aria-label="Budget of the children">
      <h2>Budget</h2>
      <dl class="facts">
        {budget.lanes.map((it) => (
          <div key={it.lane}>
            <dt>{lane(it.lane)}</dt>
            <dd>
              {it.total.toLocaleString('en-US')} {it.limit === null || it.limit === undefined ? <span class="mute">spent, no limit</span> : `of ${it.limit.toLocaleString('en-US')}`}
              {it.limit ? (
                <>
                  {' '}
                  <meter aria-label={`${lane(it.lane)} spent`} min={0} max={it.limit} high={it.limit * 0.8} value={it.total} />
                </>
              ) : null}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function One({ world, child, isOpen, changed, select }: { world: string; child: Child; isOpen: boolean; changed: () => void; select: (height: number) => void }) {
  const { universe } = useSession();
  const may = useMay();
  const [action, setAction] = useState<Action>();
  const path = { universe, world, child: child.child_id };
  const cancel: Action = {
    label: 'Cancel the child',
    title: `Cancel ${nameOf(child)}`,
    danger: true,
    consequence: <p>{child.phase === 'started' ? 'Its executor is asked to stop it, and the world gets its end as a receipt. What it has already done is not undone.' : 'It never starts, and the world gets its end as a receipt.'}</p>,
    command: command(universe, ['world', 'child', 'cancel', world, child.child_id], 'POST', `${W}/children/{child}/cancel`, { path, body: {} }),
    run: async () => {
      const { outcome } = await api.post<{ outcome: string }>(`${W}/children/{child}/cancel`, { path, body: {} });
      toast(outcome === 'requested' ? 'Its executor was asked to stop it' : outcome === 'already_terminal' ? 'It had ended already' : 'The child is cancelled');
    },
  };
  const isEnded = child.phase === 'terminal';
  return (
    <>
      <p class="row">
        <strong>{nameOf(child)}</strong>
        {isEnded ? <Badge of={child.outcome ?? 'terminal'} /> : <Badge of={child.phase} />}
        {!isEnded && child.cancel_request_id && <span class="mute">cancel requested</span>}
        {!nameOf(child).startsWith(child.kind) && <span class="mute">{child.kind}</span>}
        <Id id={child.child_id} />
      </p>
      <ol class="phases" aria-label={`Phase ${child.phase}`}>
        {PHASES.map((phase) => (
          <li key={phase} class={PHASES.indexOf(phase) <= PHASES.indexOf(child.phase) ? 'reached' : ''} aria-current={phase === child.phase ? 'step' : undefined}>
            {phase}
          </li>
        ))}
      </ol>
      {child.code && (
        <p class="bad-text">
          {child.code}
          {child.reason && `: ${child.reason}`}
        </p>
      )}
      <p class="mute mono">{gist(child.params, 160)}</p>
      <Spent child={child} />
      <p class="mute">
        spawned at{' '}
        <button type="button" class="link" onClick={() => select(child.parent_seq)}>
          height {child.parent_seq}
        </button>
        , <Time at={child.spawned_at} />
        {child.started_at && (
          <>
            , started <Time at={child.started_at} />
          </>
        )}
        {child.ended_at && (
          <>
            , ended <Time at={child.ended_at} />
          </>
        )}
      </p>
      <div class="row">
        {child.child_world && (
          <a class="button" href={to(['u', universe, 'worlds', child.child_world])}>
            Open its world
          </a>
        )}
        <button type="button" aria-expanded={isOpen} onClick={() => refine({ child: isOpen ? undefined : child.child_id })}>
          {isOpen ? 'Hide the events' : 'Show the events'}
        </button>
        {may('admin') && !isEnded && (
          <button type="button" class="danger-quiet" onClick={() => setAction(cancel)}>
            Cancel
          </button>
        )}
      </div>
      {isOpen && <Events world={world} child={child} />}
      {action && <Confirm action={action} close={(was) => (setAction(undefined), was && changed())} />}
    </>
  );
}

/** What it has used of what it may use. */
function Spent({ child }: { child: Child }) {
  const spent = child.spent as Record<string, number>;
  const budget = child.budget as Record<string, number>;
  const lanes = [...new Set([...Object.keys(budget), ...Object.keys(spent)])];
  if (lanes.length === 0) return null;
  return <p>spent {lanes.map((name) => `${(spent[name] ?? 0).toLocaleString('en-US')}${name in budget ? ` of ${budget[name]!.toLocaleString('en-US')}` : ''} ${lane(name)}`).join(', ')}</p>;
}

interface ChildEvent {
  event: string;
  seq: number;
  ts: string;
  detail: { status?: string; phase_at_event?: string; code?: string | null; reason?: string | null };
}

function Events({ world, child }: { world: string; child: Child }) {
  const { universe } = useSession();
  const path = { universe, world, child: child.child_id };
  const found = useLoad((signal) => api.get<ChildEvent[]>(`${W}/children/{child}/events`, { path, signal }), [path, child.phase]);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="events" />;
  if (found.value.length === 0) return <p class="mute">No event yet: the first one comes when it starts.</p>;
  return (
    <ol class="log" aria-label="Events of the child">
      {found.value.map((it) => (
        <li key={it.seq}>
          <Time at={it.ts} as="clock" /> <strong>{it.event}</strong> {it.detail.phase_at_event} {it.detail.code} {it.detail.reason}
        </li>
      ))}
    </ol>
  );
}
