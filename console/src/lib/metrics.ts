// What `/metrics` counted, over the last hour, kept in the page: the server keeps no history.
import { api } from '../api/client';

export interface Sample {
  at: number;
  /** Journal records for each second since the sample before. */
  recordsPerSecond: number;
  requestsPerSecond: number;
  /** From the enqueueing of an item to its commit: 95 of 100 within so many milliseconds. */
  journalMs95: number | null;
  effectFailuresPerMinute: number;
}

const KEPT = 720;
const EVERY_MS = 5_000;

type Counters = { at: number; values: Map<string, number>; buckets: [number, number][] };

function parse(text: string): Counters {
  const values = new Map<string, number>();
  const buckets: [number, number][] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('#') || line === '') continue;
    const at = line.lastIndexOf(' ');
    const [name, value] = [line.slice(0, at), Number(line.slice(at + 1))];
    const plain = name.split('{')[0]!;
    if (plain === 'mundi_inbox_to_journal_seconds_bucket') {
      const bound = /le="([^"]+)"/.exec(name)?.[1];
      buckets.push([bound === '+Inf' ? Infinity : Number(bound), value]);
    } else {
      values.set(plain, (values.get(plain) ?? 0) + value);
    }
  }
  return { at: Date.now(), values, buckets };
}

/** The bound below which 95 of 100 lie, of what was counted between two samples. */
function quantile(before: [number, number][], after: [number, number][]): number | null {
  const counted = after.map(([bound, value], index): [number, number] => [bound, value - (before[index]?.[1] ?? 0)]);
  const total = counted.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  let [lower, below] = [0, 0];
  for (const [bound, value] of counted) {
    if (value >= total * 0.95) {
      if (bound === Infinity) return lower * 1_000;
      const share = value === below ? 1 : (total * 0.95 - below) / (value - below);
      return (lower + (bound - lower) * share) * 1_000;
    }
    [lower, below] = [bound, value];
  }
  return null;
}

const samples: Sample[] = [];
let before: Counters | undefined;
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

async function take() {
  let now: Counters;
  try {
    now = parse(await api.text('/metrics'));
  } catch {
    before = undefined; // a process that was started anew counts from zero
    return;
  }
  if (before) {
    const seconds = (now.at - before.at) / 1_000;
    const risen = (name: string) => Math.max(0, (now.values.get(name) ?? 0) - (before!.values.get(name) ?? 0));
    samples.push({
      at: now.at / 1_000,
      recordsPerSecond: risen('mundi_turn_records_total') / seconds,
      requestsPerSecond: risen('mundi_http_requests_total') / seconds,
      journalMs95: quantile(before.buckets, now.buckets),
      effectFailuresPerMinute: (risen('mundi_effect_failures_total') / seconds) * 60,
    });
    samples.splice(0, samples.length - KEPT);
  }
  before = now;
  listeners.forEach((listener) => listener());
}

/** Calls back with each new sample. Sampling begins with the first who watches and goes on, so that an hour gathers. */
export function watchMetrics(listener: (samples: Sample[]) => void): () => void {
  const tell = () => listener([...samples]);
  listeners.add(tell);
  tell();
  if (!timer) {
    void take();
    timer = setInterval(() => void take(), EVERY_MS);
  }
  return () => void listeners.delete(tell);
}
