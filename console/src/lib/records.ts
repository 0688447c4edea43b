// What a record of a journal says, for people: its kind, one line about it, and what it belongs to.
import type { JournalRecord } from '../api/client';
import { gist, labelled, short } from './text';

export type Kind = 'event' | 'message' | 'receipt' | 'timer' | 'control' | 'effect' | 'reply' | 'failure' | 'mark';

export interface Told {
  kind: Kind;
  /** What people call it: `event add`. */
  title: string;
  /** What it carries. */
  detail: string;
  /** It follows from the record above that caused the step. */
  follows: boolean;
  /** The intent that it asks for, answers or withdraws. */
  intent?: string;
  tone?: 'good' | 'bad' | 'warn';
}

/** What follows from a step. Everything else begins one, or is a note between steps. */
const FOLLOWING = new Set(['intent', 'cancel', 'reply', 'manifest_change', 'step_failed']);

export function follows(record: JournalRecord): boolean {
  return FOLLOWING.has(record.type);
}

export function tell(record: JournalRecord): Told {
  const mark = (title: string, detail = ''): Told => ({ kind: 'mark', title, detail, follows: false });
  switch (record.type) {
    case 'ingress':
      return input(record);
    case 'intent': {
      const isTimer = record.kind === 'timer.set';
      const detail = isTimer ? `due ${record.params?.due ?? ''}` : gist(record.params);
      return { kind: isTimer ? 'timer' : 'effect', title: isTimer ? `set timer ${labelled(record.label)}` : `ask ${record.kind}`, detail, follows: true, intent: record.intent };
    }
    case 'cancel':
      return { kind: 'effect', title: 'withdraw', detail: short(record.intent), follows: true, intent: record.intent };
    case 'reply': {
      const failed = record.outcome?.code;
      return { kind: 'reply', title: failed ? `reply ${failed}` : 'reply', detail: failed ? record.outcome.reason : gist(record.outcome?.ok), follows: true, tone: failed ? 'bad' : undefined };
    }
    case 'step_failed':
      return { kind: 'failure', title: `step failed: ${record.code}`, detail: record.reason, follows: true, tone: 'bad' };
    case 'held':
      return { kind: 'failure', title: `on hold: ${record.code}`, detail: record.reason, follows: false, tone: 'bad' };
    case 'rejected':
      return { kind: 'failure', title: `rejected: ${record.code}`, detail: record.reason, follows: false, tone: 'bad' };
    case 'manifest_change':
      return { kind: 'control', title: 'program changes', detail: `${short(record.from)} → ${short(record.to)}`, follows: true };
    case 'genesis':
      return mark('world begins', `manifest ${short(record.manifest)}`);
    case 'fork_genesis':
      return mark('fork begins', `of ${short(record.parent)} at ${record.forked_at}, effects: ${record.policy}`);
    case 'outcome_digest':
      return mark('turn ends', `digest ${short(record.digest)}`);
    case 'snapshot':
    case 'baseline_snapshot':
      return mark(record.type === 'snapshot' ? 'snapshot' : 'baseline', `covers all below ${record.snapshot?.height}`);
    case 'recording_ended':
      return mark('recording ends', 'from here on effects are carried out');
    case 'custom':
      return mark(record.kind, gist(record.payload));
    default:
      return mark(record.type, gist(record));
  }
}

function input(record: JournalRecord): Told {
  const given = record.input ?? {};
  const of = (kind: Kind, title: string, detail: unknown): Told => ({ kind, title, detail: gist(detail), follows: false });
  if (given.event !== undefined) return of('event', `event ${given.event}`, given.value);
  if (given.receipt !== undefined) {
    const tone = given.status === 'ok' ? 'good' : given.status === 'error' ? 'bad' : 'warn';
    return { ...of('receipt', `${given.status} from ${given.kind}`, given.payload), intent: given.receipt, tone };
  }
  if (given.message !== undefined) return of('message', `message ${given.message}`, given.payload);
  if (given.timer !== undefined) return { ...of('timer', 'timer fires', given.payload), intent: given.timer };
  // What an operator spawned: the record of the intent below it says which.
  if (given.control === 'spawn_child') return of('control', 'spawn by request', '');
  return of('control', `${given.control}`, given.payload);
}

/** When it was written, where it says so. */
export function timeOf(record: JournalRecord): string | undefined {
  return record.now ?? record.snapshot?.logical_time;
}

/** What a record means regardless of which world it stands in: ids of worlds and intents differ between a fork and its parent, times too. */
export function essence(record: JournalRecord): string {
  return JSON.stringify([record.type, core(record)]);
}

function core(record: JournalRecord): unknown {
  switch (record.type) {
    case 'ingress':
      return withoutIds(record.input);
    case 'intent':
      return [record.kind, record.label, record.kind === 'timer.set' ? record.params?.payload : record.params];
    case 'reply':
      return record.outcome;
    case 'step_failed':
    case 'held':
    case 'rejected':
      return [record.code, record.reason];
    case 'manifest_change':
      return [record.from, record.to];
    case 'custom':
      return [record.kind, record.payload];
    default:
      return null;
  }
}

function withoutIds(input: Record<string, unknown> | undefined): unknown {
  const { receipt, timer, ...rest } = input ?? {};
  return { ...rest, isReceipt: receipt !== undefined, isTimer: timer !== undefined };
}
