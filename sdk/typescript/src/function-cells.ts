/**
 * How the instances of durable functions lie in a world's cells. The layout is the same in every language, so that a server lists
 * instances without running code.
 *
 *     $fn/m                          how many instances there are
 *     $fn/i/FUNCTION/KEY             an instance: its state and what it waits for
 *     $fn/l/FUNCTION/KEY/NNNNNN      its log: 000000 is its input, the others are awaits by their number
 *     $fn/p/FUNCTION/KEY/NNNNNN      pages of its log: awaits that have ended, which are read together
 *     $fn/e/EVENT/FUNCTION/KEY/RUN.N an await of an event that is not addressed to one instance
 *     $fn/d/NNNNNNNNNNNN             instances that have ended, in that order
 *
 * An await is a row: a JSON array in a text, because interpreters read JSON by native code and CBOR by their own, which takes a hundred
 * times as long. Where a result has no exact JSON (bytes, floats, integers beyond 2^53) its cell is `{"row": …, "value": …}`. A page is
 * rows with commas between them.
 */

import { decode, encode, sortedEntries } from "./cbor.ts";
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
/** All of them together, so that the instance's cell always fits. */
export const SIGNALS_BYTES_MAX = 256 << 10;
/** What an instance says about itself. */
export const STATUS_BYTES_MAX = 64 << 10;
/** Awaits of one event without a key that a step looks at. */
export const WAITERS_MAX = 1000;
/** Those of them that it wakes: each may ask for something, and a step has 256 outputs. */
export const WOKEN_MAX = 250;
/** Callers that wait for one instance. */
export const CALLERS_MAX = 100;
/** Open awaits that an instance's cell shows. */
const WAITS_SHOWN_MAX = 16;
/** Awaits that have ended are moved to a page so many at a time. */
const PAGE_ROWS = 16;
/** A page that has so many bytes gets no more rows. */
const PAGE_BYTES = 32 << 10;
/** A larger row stays in its own cell. */
const ROW_BYTES_MAX = 4 << 10;
const NAME = /^[A-Za-z0-9\-_.:@]{1,128}$/;

export type State = "running" | "done" | "failed" | "cancelled" | "diverged";
/** The length and the CRC-32 of a value's canonical CBOR. */
export type Print = [number, number];

/** The cell of an instance. */
export interface Head {
  format: 2;
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

export type Kind = "start" | "effect" | "timer" | "event" | "signal" | "get" | "put" | "delete" | "version";

/** An await: the columns of its row. Times are texts, because they are beyond 2^53. Columns at the end that are null are left out. */
export type Entry = [
  number: number,
  kind: Kind,
  name: string,
  state: "open" | "ok" | "error" | "cancelled",
  /** Its place among the awaits that have ended. */
  order?: number | null,
  ended_ns?: string | null,
  value?: unknown,
  /** The print of what was asked for: length and CRC-32. */
  bytes?: number,
  crc?: number,
  asked_ns?: string,
  /** The height of the step that asked. */
  asked_at?: number,
  /** The height of the record that ended it. */
  ended_at?: number | null,
  attempts?: number | null,
  /** How often it may be tried again, and with what. */
  retry?: [max: number, params: unknown] | null,
];
export const NUMBER = 0;
export const KIND = 1;
export const NAMED = 2;
export const STATE = 3;
export const ORDER = 4;
export const ENDED_NS = 5;
export const VALUE = 6;
export const BYTES = 7;
export const CRC = 8;
export const ASKED_NS = 9;
export const ASKED_AT = 10;
export const ENDED_AT = 11;
export const ATTEMPTS = 12;
export const RETRY = 13;

/** An await that is in a cell of its own. */
interface Piece {
  row: string;
  /** It may be moved to a page. */
  fits: boolean;
}

/** The log of an instance: the start, and every await by its number. */
export class Log {
  readonly entries: Entry[] = [];
  /** The numbers of awaits in the order in which they ended. */
  readonly order: (number | "cancel")[] = [];
  /** Those in cells of their own; all that are open are among them. */
  readonly tail = new Map<number, Piece>();
  pages = 0;
  last: { rows: string; bytes: number } | undefined;

  get open(): Entry[] {
    const numbers = [...this.tail.keys()].filter((number) => this.entries[number]![STATE] === "open");
    return numbers.sort((a, b) => a - b).map((number) => this.entries[number]!);
  }
}

interface Totals {
  running: number;
  ended: number;
  next: number;
}

export const instanceOf = (head: { function: string; key: string }) => `${head.function}/${head.key}`;
export const headKey = (instance: string) => `${PREFIX}i/${instance}`;
const detachedKey = (instance: string, run: number, number: number) => `${PREFIX}o/${instance}/${run}.${number}`;
const logPrefix = (instance: string) => `${PREFIX}l/${instance}/`;
const pagePrefix = (instance: string) => `${PREFIX}p/${instance}/`;
const pageKey = (instance: string, page: number) => pagePrefix(instance) + String(page).padStart(6, "0");
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

  putHead(head: Head, open: Entry[]): void {
    const shown = open.slice(0, WAITS_SHOWN_MAX);
    head.waits = shown.map((entry) => [entry[NUMBER], entry[KIND], entry[NAMED], BigInt(entry[ASKED_NS]!)]);
    this.world.put(headKey(instanceOf(head)), head);
  }

  log(head: Head): Log {
    const log = new Log();
    const { entries, order } = log;
    const instance = instanceOf(head);
    let count = 0;
    for (const { value } of this.world.cellsUnder(pagePrefix(instance))) {
      const rows = decode(value) as string;
      const page = JSON.parse(`[${rows}]`) as Entry[];
      // Not `for … of`: an interpreter takes ten times as long for it, and there may be a thousand.
      for (let at = 0; at < page.length; at++) {
        const entry = page[at]!;
        const number = entry[NUMBER];
        entries[number] = entry;
        if (entry[ORDER] != null) order[entry[ORDER]] = number;
      }
      count += page.length;
      log.pages++;
      log.last = { rows, bytes: value.length };
    }
    for (const { value } of this.world.cellsUnder(logPrefix(instance))) {
      const { entry, piece } = readCell(value);
      entries[entry[NUMBER]] = entry;
      if (entry[ORDER] != null) order[entry[ORDER]] = entry[NUMBER];
      log.tail.set(entry[NUMBER], piece);
      count++;
    }
    if (count !== head.asked + 1) throw new Error(`the log of ${instance} lacks awaits`);
    return log;
  }

  entry(head: Head, number: number): Entry | undefined {
    const found = this.world.getBytes(logKey(instanceOf(head), number));
    return found && readCell(found).entry;
  }

  putEntry(head: Head, entry: Entry, log?: Log): void {
    const { cell, row } = writeCell(entry);
    const bytes = encode(cell);
    this.world.putBytes(logKey(instanceOf(head), entry[NUMBER]), bytes);
    log?.tail.set(entry[NUMBER], { row, fits: typeof cell === "string" && bytes.length <= ROW_BYTES_MAX });
  }

  /** Moves awaits that have ended to a page, once there are enough of them. */
  compact(head: Head, log: Log): void {
    const ended = [...log.tail].filter(([number, { fits }]) => fits && number > 0 && log.entries[number]![STATE] !== "open");
    if (ended.length < PAGE_ROWS) return;
    ended.sort(([a], [b]) => a - b);
    const instance = instanceOf(head);
    const isNew = log.last === undefined || log.last.bytes >= PAGE_BYTES;
    const rows = ended.map(([, { row }]) => row);
    if (isNew) log.pages++;
    else rows.unshift(log.last!.rows);
    this.world.put(pageKey(instance, log.pages - 1), rows.join(","));
    for (const [number] of ended) {
      log.tail.delete(number);
      this.world.delete(logKey(instance, number));
    }
  }

  /** Keeps an effect that is tried again without its function, which has ended or started over. */
  putDetached(instance: string, run: number, entry: Entry): void {
    this.world.putBytes(detachedKey(instance, run, entry[NUMBER]), encode(writeCell(entry).cell));
  }

  /** The effect with this number, if it is tried again without its function. */
  detached(instance: string, run: number, number: number): Entry | undefined {
    const found = this.world.getBytes(detachedKey(instance, run, number));
    return found && readCell(found).entry;
  }

  forgetDetached(instance: string, run: number, number: number): void {
    this.world.delete(detachedKey(instance, run, number));
  }

  deleteLog(head: Head): void {
    for (const prefix of [pagePrefix, logPrefix]) {
      for (const { key } of this.world.cellsUnder(prefix(instanceOf(head)))) this.world.delete(key);
    }
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

/** The one JSON text of a value, if it has one that every language reads as the same. */
function exactJson(value: unknown): string | undefined {
  if (value === null || value === undefined) return "null";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : undefined;
  if (typeof value !== "object" || value instanceof Uint8Array) return undefined;
  const parts: (string | undefined)[] = Array.isArray(value)
    ? value.map(exactJson)
    : sortedEntries(value).map(([name, part]) => {
        const text = exactJson(part);
        return text === undefined ? undefined : `${JSON.stringify(name)}:${text}`;
      });
  if (parts.includes(undefined)) return undefined;
  return Array.isArray(value) ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

function writeCell(entry: Entry): { cell: unknown; row: string } {
  const [number, kind, name, state, order, ended_ns, value, bytes, crc, asked_ns, asked_at, ended_at, attempts, retry] = entry;
  const exact = { value: exactJson(value), retry: exactJson(retry) };
  const ended = ended_ns == null ? "null" : `"${ended_ns}"`;
  let row = `[${number},"${kind}",${JSON.stringify(name)},"${state}",${order ?? null},${ended},${exact.value ?? null},`;
  row += `${bytes},${crc},"${asked_ns}",${asked_at}`;
  if (ended_at != null || attempts != null || retry != null) row += `,${ended_at ?? null}`;
  if (attempts != null || retry != null) row += `,${attempts ?? null}`;
  if (retry != null && exact.retry !== undefined) row += `,${exact.retry}`;
  row += "]";
  if (exact.value !== undefined && exact.retry !== undefined) return { cell: row, row };
  return { cell: { row, value: exact.value === undefined ? value : undefined, retry: exact.retry === undefined ? retry : undefined }, row };
}

function readCell(bytes: Uint8Array): { entry: Entry; piece: Piece } {
  const cell = decode(bytes) as any;
  if (typeof cell === "string") return { entry: JSON.parse(cell), piece: { row: cell, fits: bytes.length <= ROW_BYTES_MAX } };
  const entry: Entry = JSON.parse(cell.row);
  if (cell.value !== undefined) entry[VALUE] = cell.value;
  if (cell.retry !== undefined) entry[RETRY] = cell.retry;
  return { entry, piece: { row: cell.row, fits: false } };
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
