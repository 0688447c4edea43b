// "Why is it waiting", in one sentence for each reason: the server's own answer, with links to what it names.
import type { ComponentChildren } from 'preact';
import type { Child, Effect, WhyCause, WhyWorld, WorldDetails } from '../../api/client';
import { to } from '../../lib/route';
import { useSession } from '../../lib/session';
import { count, labelled, short } from '../../lib/text';
import { Time } from '../../ui/basics';

type Reason = [tone: 'good' | 'warn' | 'bad' | 'mute', sentence: ComponentChildren];

interface Props {
  details: WorldDetails;
  why: WhyWorld | undefined;
  /** They say more about an effect than why it waits: of how many attempts, and what went wrong. */
  effects?: Effect[];
  dispatched?: Child[];
}

export function Why({ details, why, effects, dispatched }: Props) {
  const { universe } = useSession();
  const causes = why?.causes ?? [];
  const context: Context = { universe, details, effects: effects ?? [], dispatched: dispatched ?? [], hasChildren: causes.some((it) => it.cause === 'children') };
  const timers = causes.filter((it) => it.cause === 'timer');
  const reasons: Reason[] = [
    ...causes.filter((it) => it.cause !== 'timer').map((cause) => ofCause(cause, context)),
    ...(context.hasChildren ? [] : ofChildren(context)),
    ...ofFailure(details),
    ...ofInbox(details, causes),
    ...ofTimers(timers),
  ];
  if (!why) reasons.push(['mute', 'Looking for what it waits for…']);
  return (
    <ul class="why" aria-label="Why it is waiting">
      {reasons.map(([tone, sentence], index) => (
        <li key={index} class={tone}>
          {sentence}
        </li>
      ))}
    </ul>
  );
}

interface Context {
  universe: string;
  details: WorldDetails;
  effects: Effect[];
  dispatched: Child[];
  hasChildren: boolean;
}

const Worker = ({ id }: { id: string | null | undefined }) => (
  <>
    worker <code title={id ?? undefined}>{short(id, 14)}</code>
  </>
);

function ofCause(cause: WhyCause, context: Context): Reason {
  const { details } = context;
  switch (cause.cause) {
    case 'nothing_to_do': {
      const runs = details.lease ? <>in the memory of <Worker id={details.lease.holder} /></> : 'not in memory: it costs nothing until something arrives';
      return ['good', <>Idle: it has done all it was asked, and waits for its next event. It is {runs}.</>];
    }
    case 'archived':
      return ['mute', 'Archived: it takes nothing in until it is taken out of the archive.'];
    case 'paused':
      return ['warn', <>Paused{cause.by ? <> by <strong>{cause.by}</strong></> : ''}{cause.since ? <> <Time at={cause.since} /></> : ''}: it takes nothing but commands, and its inbox keeps what arrives. Resume it to go on.</>];
    case 'person': {
      const at = details.hold?.failed_input ? ` at ${details.hold.failed_input}` : '';
      return ['bad', <>On hold{at} since <Time at={cause.since} />: <strong>{cause.code}</strong>, {details.hold?.reason ?? cause.detail}. Retry it (after an upgrade, say), or skip that one input.</>];
    }
    case 'lease':
      return ['warn', <>{sentence(cause.detail.replace(cause.by ?? '\0', ''), <Worker id={cause.by} />)} <span class="mute">It expires <Time at={cause.until} />.</span></>];
    case 'effect':
      return ofEffect(cause, context);
    case 'children':
      return ofChildren(context)[0] ?? ['warn', `${capital(cause.detail)}.`];
    default:
      return ['warn', <>{capital(cause.detail)}.{cause.advice && <span class="mute"> {capital(cause.advice)}.</span>}</>];
  }
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What the server says of the holder of a lease, with its id as people read it. */
function sentence(rest: string, holder: ComponentChildren): ComponentChildren {
  const isGone = rest.includes('does not live');
  const isRequest = rest.includes('an operation of');
  if (isRequest) return <>An operation of {holder} gets its lease next.</>;
  return isGone ? <>Its lease is still held by {holder}, which does not live any more: another one takes over when it expires.</> : <>It runs: {holder} has its lease and takes its turns.</>;
}

function ofEffect(cause: WhyCause, { universe, details, effects }: Context): Reason {
  if (!cause.intent) return ['mute', <a href={to(['u', universe, 'effects'], { world: details.name ?? details.world })}>and more open effects</a>];
  const effect = effects.find((it) => it.intent === cause.intent);
  const name = (
    <a href={to(['u', universe, 'effects'], { effect: cause.intent, world: details.world })}>
      {cause.kind}
      {effect?.label ? ` “${labelled(effect.label)}”` : ''}
    </a>
  );
  const tries = cause.attempt ? `, attempt ${cause.attempt}${effect?.attempts_max ? ` of ${effect.attempts_max}` : ''}` : '';
  if (cause.by) return ['warn', <>Waits for {name}{tries}: <Worker id={cause.by} /> carries it out, and has until <Time at={cause.until} />.</>];
  if (cause.code) return ['bad', <>Waits for {name}{tries}: the last one failed with <strong>{cause.code}</strong>{effect?.last_reason ? `, ${effect.last_reason}` : ''}; next try <Time at={cause.next_try} />.</>];
  if (cause.next_try) return ['warn', <>Waits for {name}: {cause.detail.replace(/^the effect `[^`]*` \([^)]*\) waits for /, '').replace(/ until .*$/, '')}, until <Time at={cause.next_try} />.</>];
  return ['warn', <>Waits for {name}, asked for <Time at={cause.since} />: no worker has claimed it yet.{cause.advice && <span class="mute"> {capital(cause.advice)}.</span>}</>];
}

function ofFailure({ failures, failed, hold }: WorldDetails): Reason[] {
  if (failures === 0 || !failed || hold) return [];
  return [['bad', <>{count(failures, 'step')} failed; the newest at height {failed.height}, <Time at={failed.at} />: <strong>{failed.code}</strong>, {failed.reason}</>]];
}

function ofInbox({ inbox_items, lease }: WorldDetails, causes: WhyCause[]): Reason[] {
  if (inbox_items === 0 || causes.some((it) => it.cause === 'inbox')) return [];
  return [['warn', <>{count(inbox_items, 'item')} in its inbox{lease ? <>; <Worker id={lease.holder} /> holds it</> : '; no worker holds it'}.</>]];
}

function ofChildren({ universe, details, dispatched }: Context): Reason[] {
  const open = dispatched.filter((child) => child.phase !== 'terminal');
  if (open.length === 0) return [];
  const running = open.filter((child) => child.phase === 'started').length;
  const oldest = open.reduce((a, b) => (a.spawned_at < b.spawned_at ? a : b));
  return [['warn', <>Waits for <a href={to(['u', universe, 'worlds', details.name ?? details.world], { tab: 'children' })}>{open.length === 1 ? '1 child' : `${open.length} children`}</a>: {running} at work, {open.length - running} not started; the oldest was spawned <Time at={oldest.spawned_at} />.</>]];
}

function ofTimers(timers: WhyCause[]): Reason[] {
  const due = timers.map((it) => it.until).filter((it) => it !== undefined && it !== null).sort();
  if (due.length === 0) return [];
  const isMore = timers.some((it) => !it.until);
  return [['mute', <>{count(due.length, 'timer')}{isMore ? ' or more' : ''} set; the next one fires <Time at={due[0]!} />.</>]];
}
