/**
 * How the instances of durable functions lie in a world's cells. The layout is the same in every language, so that a server lists
 * instances without running code.
 *
 *     $fn/m                          how many instances there are
 *     $fn/i/FUNCTION/KEY             an instance: its state and what it waits for
 *     $fn/l/FUNCTION/KEY/NNNNNN      its log: 000000 is its input, the others are its awaits in the order in which they were asked for
 *     $fn/e/EVENT/FUNCTION/KEY/RUN.N an await of an event that is not addressed to one instance
 *     $fn/d/NNNNNNNNNNNN             instances that have ended, in that order
 */

import { encode } from "./cbor.ts";
import type { World } from "./index.ts";

export const PREFIX = "$fn/";
/** The inbox of a world to which commands about instances go. */
export const INBOX = "$fn";

/** Instances of a world that have not ended. */
export const INSTANCES_MAX = 1000;
/** Instances that have ended and are still found by their key; the oldest are forgotten first. */
export const ENDED_MAX = 1000;
/** Awaits in the log of one instance. */
export const AWAITS_MAX = 1000;
/** What an await or an input may have, so that its cell always fits. */
export const VALUE_BYTES_MAX = 512 << 10;
/** Events addressed to one instance that it has not asked for yet. */
export const SIGNALS_MAX = 100;
/** Callers that wait for one instance. */
export const CALLERS_MAX = 100;
/** Open awaits that an instance's cell shows. */
const WAITS_SHOWN_MAX = 16;
const NAME = /^[A-Za-z0-9\-_.:@]{1,128}$/;

export type State = "running" | "done" | "failed" | "cancelled" | "diverged";
/** The length and the CRC-32 of a value's canonical CBOR. */
export type Print = [number, number];

/** The cell of an instance. */
export interface Head {
  format: 1;
  function: string;
  key: string;
  state: State;
  paused?: true;
  /** How often it has started over. */
  run: number;
  seed: number;
  input: Print;
  began_ns: number | bigint;
  /** Awaits in the log, those that have ended, and those whose end the code has seen. */
  asked: number;
  resolved: number;
  ran: number;
  /** What it waits for: number, kind, name, since when. */
  waits: [number, string, string, number | bigint][];
  /** Places of the inbox that its result goes to. */
  callers: string[];
  status?: unknown;
  signals?: [string, unknown][];
  cancel?: { order: number; reason: string; at_ns: number | bigint };
  result?: unknown;
  error?: Failed;
  ended_ns?: number | bigint;
}

/** Why an instance ended, or stands still. */
export interface Failed {
  code: string;
  message: string;
  /** The await whose end the code was working on; 0 before the first. */
  await: number;
}

/** The cell of an await. */
export interface Entry {
  kind: "start" | "effect" | "timer" | "event" | "signal" | "get" | "put" | "delete" | "version";
  name: string;
  print: Print;
  state: "open" | "ok" | "error" | "cancelled";
  asked_ns: number | bigint;
  /** The height of the step that asked. */
  asked_at: number;
  value?: unknown;
  /** Its place among the awaits that have ended. */
  order?: number;
  ended_ns?: number | bigint;
  /** The height of the record that ended it. */
  ended_at?: number;
  attempts?: number;
  /** How often it may be tried again, and with what. */
  retry?: { max: number; params: unknown };
}

interface Totals {
  running: number;
  ended: number;
  next: number;
}

export const instanceOf = (head: { function: string; key: string }) => `${head.function}/${head.key}`;
export const headKey = (instance: string) => `${PREFIX}i/${instance}`;
const logPrefix = (instance: string) => `${PREFIX}l/${instance}/`;
const logKey = (instance: string, number: number) => logPrefix(instance) + String(number).padStart(6, "0");
export const eventPrefix = (name: string) => `${PREFIX}e/${name}/`;
export const isName = (text: string) => NAME.test(text);

/** The label of an await's effect or timer; those of its retry and its timeout have a further part. */
export const labelOf = (head: Head, number: number) => `${PREFIX}${instanceOf(head)}/${head.run}.${number}`;

/** What a label names, if it is one of ours. */
export function ofLabel(label: string) {
  const parts = /^\$fn\/([^/]+)\/([^/]+)\/(\d+)\.(\d+|start)(?:\/(retry|timeout))?$/.exec(label);
  if (parts === null) return undefined;
  const [, name, key, run, number, part] = parts;
  return { instance: `${name}/${key}`, run: Number(run), number: number === "start" ? undefined : Number(number), part };
}

/** The cells of instances, in a world. */
export class Cells {
  constructor(private world: World<any>) {}

  head(instance: string): Head | undefined {
    return this.world.get<Head>(headKey(instance));
  }

  putHead(head: Head, open: Map<number, Entry>): void {
    const shown = [...open].sort(([a], [b]) => a - b).slice(0, WAITS_SHOWN_MAX);
    head.waits = shown.map(([number, entry]) => [number, entry.kind, entry.name, entry.asked_ns]);
    this.world.put(headKey(instanceOf(head)), head);
  }

  /** The whole log: the start, and every await by its number. */
  log(head: Head): Entry[] {
    const entries: Entry[] = [];
    const prefix = logPrefix(instanceOf(head));
    for (let after: string | undefined; entries.length <= head.asked; ) {
      const page = this.world.scan<Entry>(prefix, after, 1000);
      if (page.length === 0) break;
      for (const [, entry] of page) entries.push(entry);
      after = page[page.length - 1]![0];
    }
    if (entries.length !== head.asked + 1) throw new Error(`the log of ${instanceOf(head)} lacks awaits`);
    return entries;
  }

  entry(head: Head, number: number): Entry | undefined {
    return this.world.get<Entry>(logKey(instanceOf(head), number));
  }

  putEntry(head: Head, number: number, entry: Entry): void {
    this.world.put(logKey(instanceOf(head), number), entry);
  }

  deleteLog(head: Head): void {
    for (let number = 0; number <= head.asked; number++) this.world.delete(logKey(instanceOf(head), number));
  }

  totals(): Totals {
    return this.world.get<Totals>(`${PREFIX}m`) ?? { running: 0, ended: 0, next: 0 };
  }

  began(): void {
    const totals = this.totals();
    this.world.put(`${PREFIX}m`, { ...totals, running: totals.running + 1 });
  }

  /** Notes that an instance has ended, and forgets the one that ended first if there are too many. */
  ended(head: Head): void {
    const { running, ended, next } = this.totals();
    this.world.put(`${PREFIX}d/${String(next).padStart(12, "0")}`, instanceOf(head));
    const totals = { running: running - 1, ended: ended + 1, next: next + 1 };
    if (totals.ended > ENDED_MAX) {
      const [[key, instance]] = this.world.scan<string>(`${PREFIX}d/`, undefined, 1) as [[string, string]];
      const oldest = this.head(instance);
      if (oldest !== undefined) this.deleteLog(oldest);
      this.world.delete(headKey(instance));
      this.world.delete(key);
      totals.ended--;
    }
    this.world.put(`${PREFIX}m`, totals);
  }

  /** All instances, in the order of their names. */
  *heads(): Generator<Head> {
    const prefix = `${PREFIX}i/`;
    for (let after: string | undefined; ; ) {
      const page = this.world.scan<Head>(prefix, after, 100);
      if (page.length === 0) return;
      for (const [, head] of page) yield head;
      after = page[page.length - 1]![0];
    }
  }
}

const TABLE = new Uint32Array(256).map((_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});

/** What a value is recognized by: another one has, but for one case in four thousand million, another print. */
export function printOf(value: unknown): Print {
  const bytes = encode(value);
  let crc = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) crc = TABLE[(crc ^ bytes[at]!) & 255]! ^ (crc >>> 8);
  return [bytes.length, (crc ^ 0xffffffff) >>> 0];
}

export const isSamePrint = (a: Print, b: Print) => a[0] === b[0] && a[1] === b[1];

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds: a number of them, or a text such as `30s`, `5m`, `1h`. */
export function milliseconds(duration: number | string): number {
  const parts = typeof duration === "string" ? /^(\d{1,9})(ms|s|m|h|d)$/.exec(duration) : null;
  const found = parts ? Number(parts[1]) * UNITS[parts[2]!]! : duration;
  if (typeof found !== "number" || !Number.isSafeInteger(found) || found < 0) {
    throw new TypeError(`\`${duration}\` is no duration: write a number of milliseconds, or \`30s\`, \`5m\`, \`1h\`, \`2d\``);
  }
  return found;
}
