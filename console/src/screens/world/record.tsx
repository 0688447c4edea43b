// One record: what it is, what it came from, what came of it, and what can be done from here.
import { api, type Effect, type JournalRecord, type WorldDetails } from '../../api/client';
import { useLoad } from '../../api/use';
import { command } from '../../lib/commands';
import { tell, timeOf } from '../../lib/records';
import { to } from '../../lib/route';
import { useMay } from '../../lib/session';
import { duration } from '../../lib/time';
import { Badge, Commands, Id, Problem, Time } from '../../ui/basics';
import { Value } from '../../ui/json';
import { WorldLink } from '../../ui/world-link';
import { EffectActions } from '../effect-actions';
import type { Journal } from './journal';
import type { Moment } from './past';

interface Props {
  details: WorldDetails;
  journal: Journal;
  head: number;
  universe: string;
  world: string;
  owner: string;
  record: JournalRecord;
  moment?: Moment;
  select: (height: number) => void;
}

export function RecordPanel({ journal, head, universe, world, owner, record, select }: Props) {
  const may = useMay();
  const told = tell(record);
  const cause = journal.cause(record.height);
  const end = journal.settled(cause, head);
  const following = Array.from({ length: Math.max(0, end - cause - 1) }, (_, index) => journal.at(cause + 1 + index)).filter((it) => it !== undefined);
  const isEvent = record.input?.event !== undefined;
  const { height, hash, type, ...rest } = record;
  return (
    <article class="record-panel">
      <h2>
        <span class={`dot ${told.kind} ${told.tone ?? ''}`} aria-hidden="true" /> {told.title}
      </h2>
      <dl class="facts">
        <div>
          <dt>Height</dt>
          <dd>{height}</dd>
        </div>
        {timeOf(record) && (
          <div>
            <dt>Taken in</dt>
            <dd>
              <Time at={timeOf(record)} as="full" />
            </dd>
          </div>
        )}
        <div>
          <dt>Hash</dt>
          <dd>
            <Id id={hash} />
          </dd>
        </div>
        {record.sender && (
          <div>
            <dt>Sent by</dt>
            <dd>
              <WorldLink id={record.sender.world} at={record.sender.height} /> at {record.sender.height}
            </dd>
          </div>
        )}
      </dl>
      {cause !== height && (
        <p>
          Follows from <Jump to={cause} journal={journal} select={select} />
        </p>
      )}
      {following.length > 0 && cause === height && (
        <div>
          <span class="field-label">What followed from it</span>
          <ul class="following">
            {following.map((it) => (
              <li key={it!.height}>
                <Jump to={it!.height} journal={journal} select={select} /> <Answer journal={journal} record={it!} select={select} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {told.intent && <Intent intent={told.intent} universe={universe} world={owner} journal={journal} record={record} select={select} />}
      {isEvent && may('send') && (
        <p>
          <a class="button" href={to(['u', universe, 'worlds', world, 'fork'], { at: height, event: height })}>
            Edit this event and run again in a fork
          </a>
        </p>
      )}
      <span class="field-label">The whole record</span>
      <Value value={readable({ height, type, ...rest, hash })} />
      <Commands of={command(universe, ['world', 'journal', world, '--from', height, '--limit', 1], 'GET', '/v1/u/{universe}/worlds/{world}/journal', { path: { universe, world }, query: { from: height, limit: 1 } })} />
    </article>
  );
}

/** Nanoseconds are too large for a number of JavaScript: the same moment stands beside them as text. */
function readable(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !(name.endsWith('_ns') && name.slice(0, -3) in value)));
}

function Jump({ to: height, journal, select }: { to: number; journal: Journal; select: (height: number) => void }) {
  const record = journal.at(height);
  return (
    <button type="button" class="link" onClick={() => select(height)}>
      {record ? tell(record).title : 'record'} at {height}
    </button>
  );
}

/** How an intent ended, as far as the journal was seen. */
function Answer({ journal, record, select }: { journal: Journal; record: JournalRecord; select: (height: number) => void }) {
  const { intent } = tell(record);
  const joined = intent ? journal.joined.get(intent) : undefined;
  if (record.type !== 'intent' || !joined) return null;
  if (joined.answered === undefined) return <span class="mute">{joined.withdrawn === undefined ? 'no receipt seen yet' : `withdrawn at ${joined.withdrawn}`}</span>;
  const [from, until] = [journal.time(record.height), journal.time(joined.answered)];
  return (
    <span>
      → <Badge of={joined.status ?? ''} /> <Jump to={joined.answered} journal={journal} select={select} /> {from !== undefined && until !== undefined && <span class="mute">after {duration(until - from)}</span>}
    </span>
  );
}

function Intent({ intent, universe, world, journal, record, select }: { intent: string; universe: string; world: string; journal: Journal; record: JournalRecord; select: (height: number) => void }) {
  const isTimer = tell(record).kind === 'timer';
  const joined = journal.joined.get(intent);
  const effect = useLoad(
    (signal) => (isTimer ? Promise.resolve(undefined) : api.get<Effect>('/v1/u/{universe}/effects/{effect}', { path: { universe, effect: intent }, query: { world }, signal })),
    [universe, intent, world],
  );
  return (
    <div class="intent">
      <p>
        Intent <Id id={intent} />
        {joined?.asked !== undefined && joined.asked !== record.height && (
          <>
            , asked for by <Jump to={joined.asked} journal={journal} select={select} />
          </>
        )}
        {joined?.answered !== undefined && joined.answered !== record.height && (
          <>
            , answered by <Jump to={joined.answered} journal={journal} select={select} />
          </>
        )}
      </p>
      {effect.error && effect.error.status !== 404 && <Problem error={effect.error} />}
      {effect.value && (
        <>
          <p>
            <Badge of={effect.value.stage} /> {effect.value.attempts > 0 && `after ${effect.value.attempts} attempts`} <EffectActions effect={effect.value} done={effect.reload} />
          </p>
          {effect.value.failed.length > 0 && <Attempts effect={effect.value} />}
        </>
      )}
    </div>
  );
}

export function Attempts({ effect }: { effect: Effect }) {
  return (
    <table>
      <thead>
        <tr>
          <th>Attempt</th>
          <th>When</th>
          <th>Failed with</th>
          <th>Next try</th>
        </tr>
      </thead>
      <tbody>
        {effect.failed.map((attempt) => (
          <tr key={attempt.attempt}>
            <td>{attempt.attempt}</td>
            <td>
              <Time at={attempt.at} />
            </td>
            <td>
              <strong>{attempt.code}</strong> {attempt.reason}
            </td>
            <td>{attempt.next ? <Time at={attempt.next} /> : 'none'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
