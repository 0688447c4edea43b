// "Why is it waiting", in one sentence for each reason.
import type { ComponentChildren } from 'preact';
import type { Child, Effect, Timer, WorldDetails } from '../../api/client';
import { to } from '../../lib/route';
import { useSession } from '../../lib/session';
import { count } from '../../lib/text';
import { Time } from '../../ui/basics';

type Reason = [tone: 'good' | 'warn' | 'bad' | 'mute', sentence: ComponentChildren];

export function Why({ details, effects, timers, dispatched }: { details: WorldDetails; effects?: Effect[]; timers?: Timer[]; dispatched?: Child[] }) {
  const { universe } = useSession();
  const reasons = [...ofState(details), ...(effects ?? []).slice(0, 4).map((effect) => ofEffect(effect, universe)), ...ofChildren(dispatched ?? [], universe, details), ...ofTimers(timers ?? [])];
  if (effects && effects.length > 4) reasons.push(['mute', <a href={to(['u', universe, 'effects'], { world: details.world })}>and {effects.length - 4} more open effects</a>]);
  if (reasons.length === 0 && !effects) reasons.push(['mute', 'Looking for what it waits for…']);
  if (reasons.length === 0) {
    const runs = details.lease ? <>in the memory of worker <code>{details.lease.holder}</code></> : 'not in memory: it costs nothing until something arrives';
    reasons.push(['good', <>Idle: it has done all it was asked, and waits for its next event. It is {runs}.</>]);
  }
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

function ofState(details: WorldDetails): Reason[] {
  const reasons: Reason[] = [];
  if (details.hold) {
    const at = details.hold.failed_input ? ` at ${details.hold.failed_input}` : '';
    reasons.push(['bad', <>On hold{at} since <Time at={details.hold.since} />: <strong>{details.hold.code}</strong>, {details.hold.reason}. Retry it (after an upgrade, say), or skip that one input.</>]);
  } else if (details.state === 'paused') {
    reasons.push(['warn', <>Paused by a command: it takes nothing else, and its inbox keeps what arrives. Resume it to go on.</>]);
  } else if (details.state === 'archived') {
    reasons.push(['mute', 'Archived: it takes nothing in until it is taken out of the archive.']);
  }
  if (details.failures > 0 && details.failed && !details.hold) {
    reasons.push(['bad', <>{count(details.failures, 'step')} failed; the newest at height {details.failed.height}, <Time at={details.failed.at} />: <strong>{details.failed.code}</strong>, {details.failed.reason}</>]);
  }
  if (details.inbox_items > 0) {
    reasons.push(['warn', <>{count(details.inbox_items, 'item')} in its inbox{details.lease ? <>; worker <code>{details.lease.holder.slice(0, 12)}…</code> holds it</> : '; no worker holds it'}.</>]);
  }
  if (details.waits) reasons.push(['warn', <>It {details.waits}.</>]);
  return reasons;
}

function ofEffect(effect: Effect, universe: string): Reason {
  const name = (
    <a href={to(['u', universe, 'effects'], { effect: effect.effect, world: effect.world })}>
      {effect.kind}
      {effect.label ? ` “${effect.label}”` : ''}
    </a>
  );
  const tries = effect.attempts > 0 ? `, attempt ${effect.attempts}${effect.attempts_max ? ` of ${effect.attempts_max}` : ''}` : '';
  if (effect.stage === 'claimed') return ['warn', <>Waits for {name}{tries}: worker <code>{effect.claimed_by?.slice(0, 12)}…</code> carries it out, and has until <Time at={effect.claimed_until} />.</>];
  if (effect.stage === 'waiting') return ['bad', <>Waits for {name}{tries}: the last one failed with <strong>{effect.last_failure}</strong>{effect.last_reason ? `, ${effect.last_reason}` : ''}; next try <Time at={effect.not_before} />.</>];
  return ['warn', <>Waits for {name}, asked for <Time at={effect.published_at} />: no worker has claimed it yet.</>];
}

function ofChildren(children: Child[], universe: string, details: WorldDetails): Reason[] {
  const open = children.filter((child) => child.phase !== 'terminal');
  if (open.length === 0) return [];
  const running = open.filter((child) => child.phase === 'started').length;
  const oldest = open.reduce((a, b) => (a.spawned_at < b.spawned_at ? a : b));
  return [['warn', <>Waits for <a href={to(['u', universe, 'worlds', details.name ?? details.world], { tab: 'children' })}>{open.length === 1 ? '1 child' : `${open.length} children`}</a>: {running} at work, {open.length - running} not started; the oldest was spawned <Time at={oldest.spawned_at} />.</>]];
}

function ofTimers(timers: Timer[]): Reason[] {
  if (timers.length === 0) return [];
  const next = timers.reduce((a, b) => (a.deliver_at < b.deliver_at ? a : b));
  return [['mute', <>{count(timers.length, 'timer')} set; the next one fires <Time at={next.deliver_at} />.</>]];
}
