// Two worlds side by side from where they branch, with the first difference marked.
import { useEffect, useState } from 'preact/hooks';
import { api, type Difference, type JournalRecord, type Page, type WorldDetails } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { essence, tell, timeOf } from '../lib/records';
import { refine, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { clock } from '../lib/time';
import { Badge, Commands, Empty, Field, Loading, Problem } from '../ui/basics';
import { Differences } from '../ui/differences';

const SHOWN_MAX = 500;

/** What says nothing about what happened, or differs between any two worlds. */
const NOISE = new Set(['outcome_digest', 'fork_genesis', 'snapshot', 'baseline_snapshot', 'recording_ended']);

interface Side {
  details: WorldDetails;
  records: JournalRecord[];
}

async function side(universe: string, world: string, from: number, signal: AbortSignal): Promise<Side> {
  const details = await api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path: { universe, world }, signal });
  const records: JournalRecord[] = [];
  for (let next: number | null = from; next !== null && next < (details.head ?? 0) && records.length < SHOWN_MAX; ) {
    const page: Page<JournalRecord> = await api.get('/v1/u/{universe}/worlds/{world}/journal', { path: { universe, world }, query: { from: next, limit: SHOWN_MAX }, signal });
    records.push(...page.items);
    next = page.next === null ? null : Number(page.next);
  }
  return { details, records: records.filter((record) => !NOISE.has(record.type)) };
}

export function Compare({ route }: { route: Route }) {
  const { universe } = useSession();
  const get = (name: string) => route.query.get(name) ?? '';
  const [left, right] = [get('left'), get('right')];
  if (!left || !right) return <Choose left={left} right={right} />;
  return <Both universe={universe} left={left} right={right} from={Number(get('from') || 0)} />;
}

function Both({ universe, left, right, from }: { universe: string; left: string; right: string; from: number }) {
  const one = useLoad((signal) => side(universe, left, from, signal), [universe, left, from], 3_000);
  const two = useLoad((signal) => side(universe, right, from, signal), [universe, right, from], 3_000);
  const asked = { path: { universe, world: left }, query: { with: right, limit: 500 } };
  const heads = [one.value?.details.head, two.value?.details.head];
  const state = useLoad((signal) => api.get<Difference[]>('/v1/u/{universe}/worlds/{world}/diff', { ...asked, signal }), [universe, left, right, heads]);
  if (one.error ?? two.error) return <Problem error={(one.error ?? two.error)!} />;
  if (!one.value || !two.value) return <Loading what="both worlds" />;
  const rows = aligned(one.value.records, two.value.records);
  const first = rows.findIndex((row) => row.differs);
  return (
    <div class="compare">
      <header class="screen-head">
        <h1>
          {nameOf(one.value.details)} <span class="mute">and</span> {nameOf(two.value.details)}
        </h1>
      </header>
      <p class="verdict" role="status">
        {first < 0 ? (
          <>
            <Badge of="same">no difference</Badge> {rows.length === 0 ? `Nothing has happened since they branched at height ${from}. Send the fork something: it has its own future.` : `Since height ${from} the same happened in both.`}
          </>
        ) : (
          <>
            <Badge of="diverges">first difference</Badge> {first === 0 ? 'In the first record after the branch,' : `After ${first} equal records,`} at height {rows[first]!.left?.height ?? rows[first]!.right?.height}: {describe(rows[first]!)}.
          </>
        )}
      </p>
      <section class="panel" aria-label="Both timelines">
        <div class="pair head">
          <SideHead of={one.value.details} universe={universe} />
          <SideHead of={two.value.details} universe={universe} />
        </div>
        <div class="pairs" role="list" tabIndex={0} aria-label="Records side by side">
          {rows.map((row, index) => (
            <div key={index} role="listitem" class={`pair ${row.differs ? 'differs' : ''} ${index === first ? 'first' : ''}`}>
              <One record={row.left} universe={universe} world={left} />
              <One record={row.right} universe={universe} world={right} />
            </div>
          ))}
          {rows.length === 0 && <Empty title="No records since they branched" />}
        </div>
      </section>
      <section class="panel pad">
        <h2>State now</h2>
        {state.error && <Problem error={state.error} />}
        {state.value && (state.value.length === 0 ? <Empty title="All cells are the same" /> : <Differences of={state.value} left={nameOf(one.value.details)} right={nameOf(two.value.details)} />)}
        <Commands of={command(universe, ['world', 'diff', left, right], 'GET', '/v1/u/{universe}/worlds/{world}/diff', asked)} />
      </section>
    </div>
  );
}

interface Row {
  left?: JournalRecord;
  right?: JournalRecord;
  differs: boolean;
}

/** Side by side in order. Once they differ, what follows is not matched any more: the two histories have nothing to compare. */
function aligned(left: JournalRecord[], right: JournalRecord[]): Row[] {
  let differs = false;
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
    const [a, b] = [left[index], right[index]];
    differs ||= !a || !b || essence(a) !== essence(b);
    return { left: a, right: b, differs };
  });
}

function describe({ left, right }: Row): string {
  const words = (record: JournalRecord | undefined) => (record ? `“${tell(record).title}”` : 'nothing yet');
  if (left && right && tell(left).title === tell(right).title) return `${words(left)} carries other values`;
  return `${words(left)} on the left, ${words(right)} on the right`;
}

function nameOf(details: WorldDetails): string {
  return details.name ?? `${details.world.slice(0, 14)}…`;
}

function SideHead({ of, universe }: { of: WorldDetails; universe: string }) {
  return (
    <div>
      <a href={to(['u', universe, 'worlds', of.name ?? of.world])}>
        <strong>{nameOf(of)}</strong>
      </a>{' '}
      <Badge of={of.state} /> <span class="mute">{[of.program, of.effects && `effects: ${of.effects}`].filter(Boolean).join(' · ')}</span>
    </div>
  );
}

function One({ record, universe, world }: { record?: JournalRecord; universe: string; world: string }) {
  if (!record) return <span class="record absent mute">–</span>;
  const told = tell(record);
  const at = timeOf(record);
  return (
    <a class={`record ${told.kind} ${told.follows ? 'follows' : ''}`} href={to(['u', universe, 'worlds', world], { at: record.height, tab: 'record' })}>
      <span class="height">{record.height}</span>
      <span class="what">
        <span class={`dot ${told.tone ?? ''}`} aria-hidden="true" />
        <span class="title">{told.title}</span>
        <span class="detail">{told.detail}</span>
      </span>
      <span class="at">{!told.follows && at ? clock(at).slice(0, 8) : ''}</span>
    </a>
  );
}

function Choose({ left, right }: { left: string; right: string }) {
  const [[a, b], set] = useState([left, right]);
  useEffect(() => set([left, right]), [left, right]);
  return (
    <form class="panel pad" onSubmit={(event) => (event.preventDefault(), refine({ left: a, right: b }))}>
      <h1>Compare two worlds</h1>
      <Field label="One world">
        <input type="text" value={a} onInput={(event) => set([event.currentTarget.value, b!])} />
      </Field>
      <Field label="The other">
        <input type="text" value={b} onInput={(event) => set([a!, event.currentTarget.value])} />
      </Field>
      <button type="submit" class="primary">
        Compare
      </button>
    </form>
  );
}
