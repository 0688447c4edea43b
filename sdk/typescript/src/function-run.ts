/**
 * One run of one instance: its code from the beginning, on what is on record, up to what is still open.
 *
 * Recorded results are given to the code one at a time, in the order in which they came, and each only when the code has done all that
 * follows from the one before. So it takes the same way as before, also where it waits for several things at once. Until it has seen
 * all that it saw in earlier steps it must ask for exactly what is on record: anything else is `FUNCTION_DIVERGED`, and nothing is
 * written. Kind and name are compared in every step. Params are compared when another program takes over and when an instance
 * goes on that has diverged: the same program asks for the same, and their print costs more than the rest of a replayed await.
 */

import { encode } from "./cbor.ts";
import {
  ASKED_NS,
  ATTEMPTS,
  AWAITS_MAX,
  BYTES,
  CRC,
  type Cells,
  ENDED_AT,
  ENDED_NS,
  type Entry,
  type Failed,
  type Head,
  KIND,
  type Kind,
  type Log,
  NAMED,
  NUMBER,
  ORDER,
  type Print,
  RETRY,
  STATE,
  VALUE,
  VALUE_BYTES_MAX,
  eventPrefix,
  instanceOf,
  isSamePrint,
  labelOf,
  printOf,
} from "./function-cells.ts";
import { EffectFailed, FunctionCancelled, FunctionDiverged, FunctionError } from "./function-errors.ts";
import type { World } from "./index.ts";
import { QueuedPromise, idle, isOwned, runJobs } from "./jobs.ts";
import { HttpResponse, readError } from "./kinds.ts";
import type { Rules } from "./offer.ts";

/** What a function that starts over returns. */
export class Continue {
  constructor(readonly input: unknown) {}
}

/** The seed grows by this when a function starts over, so that it draws other numbers. */
const RUN_STEP = 0xd1b54a32d192ed03n;

/** Where something is waited for: cancelling it ends all waits in it and in those within. */
export class Scope {
  cancelled: FunctionCancelled | undefined;

  constructor(
    readonly parent: Scope | undefined,
    readonly isShielded: boolean,
  ) {}

  /** Why nothing is waited for here any more. */
  get over(): FunctionCancelled | undefined {
    return this.cancelled ?? (this.isShielded ? undefined : this.parent?.over);
  }

  isWithin(other: Scope): boolean {
    return this === other || (!this.isShielded && this.parent !== undefined && this.parent.isWithin(other));
  }
}

type Settled<T> = { ok: true; value: T } | { ok: false; error: unknown };

/** Something that a function asked for: await it. */
export class Ask<T> extends QueuedPromise<T> {
  declare readonly run: Run;
  declare readonly number: number;
  declare readonly scope: Scope;
  declare isDetached: boolean;

  constructor(run: Run, number: number, scope: Scope) {
    super(undefined);
    this.run = run;
    this.number = number;
    this.scope = scope;
  }

  static {
    Object.assign(Ask.prototype, { isDetached: false });
  }

  /** Only the first time counts. */
  settle(settled: Settled<T>): void {
    if (this.isSettled) return;
    if (settled.ok) this.fulfil(settled.value);
    else this.fail(settled.error);
  }

  override comesNext(): boolean {
    if (this.state !== 0) return true;
    const entry = this.run.takeNext(this.number);
    if (entry === undefined) return false;
    if (entry[STATE] === "error") this.fail(failure(entry));
    else this.take((entry[NAMED] === "http.request" ? result(entry) : (entry[VALUE] ?? undefined)) as T);
    return true;
  }
}

/** How an await begins: it asks the host for something. It may end at once. */
type Begin = (label: string, entry: Entry, number: number) => void;

export class Run {
  newest = 0;
  status: unknown;
  outcome: Settled<unknown> | undefined;
  diverged: FunctionDiverged | undefined;
  isOver = false;
  readonly root = new Scope(undefined, false);
  /** The world's clock when the newest result came that the code has seen. */
  private now: string | bigint;
  /** By number; none has the number 0. */
  private asks: (Ask<any> | undefined)[] = [undefined];
  private asked = 0;
  private delivered = 0;
  private drawn = 0n;
  private hasCancelled = false;
  private entries: Entry[];
  private readonly recorded: number;
  /** Up to this one, awaits on record are those of this very program. */
  private readonly trusted: number;
  private readonly ranBefore: number;
  /** The numbers of awaits in the order in which they ended. */
  private readonly order: (number | "cancel")[];
  /** How many results the code may see. */
  private readonly deliverMax: number;

  constructor(
    readonly world: World<any>,
    private cells: Cells,
    readonly head: Head,
    readonly log: Log,
    private rules: Rules | undefined,
    /** Nothing new is asked for: only whether the code would do as is on record. */
    private isCheck: boolean,
  ) {
    this.recorded = head.asked;
    this.trusted = isCheck || head.state === "diverged" ? 0 : head.asked;
    this.ranBefore = head.ran;
    this.entries = log.entries;
    this.order = log.order;
    this.deliverMax = isCheck ? head.ran - 1 : Infinity;
    this.now = this.entries[0]![ASKED_NS]!;
    if (head.cancel) this.order[head.cancel.order] = "cancel";
  }

  get nowNs(): bigint {
    return BigInt(this.now);
  }

  /** The code does for the first time what it does now. */
  get isLive(): boolean {
    return !this.isCheck && this.delivered >= this.ranBefore;
  }

  /** Runs the code as far as it comes. */
  async execute(code: (run: Run, input: any) => unknown): Promise<void> {
    const restore = ownClock(this);
    try {
      (async () => code(this, this.entries[0]![VALUE]))().then(
        (value) => (this.outcome = { ok: true, value }),
        (error) => (this.outcome = { ok: false, error }),
      );
      // In a component jobs run here and now: a replayed await then costs no promise of this loop.
      if (isOwned()) for (runJobs(); this.mayDeliver(); runJobs()) this.deliver();
      else for (await idle(); this.mayDeliver(); await idle()) this.deliver();
      if (!this.diverged) this.checkEnd();
    } catch (error) {
      if (!(error instanceof FunctionDiverged)) throw error;
    } finally {
      restore();
      this.isOver = true;
    }
  }

  get ran(): number {
    return this.delivered + 1;
  }

  /** There is a result on record that the code has not seen, and it may see it now. */
  private mayDeliver(): boolean {
    return !this.diverged && !this.outcome && this.delivered < this.order.length && this.delivered < this.deliverMax;
  }

  /** The row of an await if its result is the next on record, which the code then has seen. Only where nothing else goes on beside. */
  takeNext(number: number): Entry | undefined {
    if (this.order[this.delivered] !== number || this.delivered >= this.deliverMax || this.diverged || this.isOver) return undefined;
    const entry = this.entries[number]!;
    this.delivered++;
    this.now = entry[ENDED_NS]!;
    this.newest = number;
    return entry;
  }

  /** The code ended, and not before all was asked for that is on record. */
  private checkEnd(): void {
    if (this.outcome && (this.delivered < this.ranBefore || this.asked < this.recorded)) {
      const number = Math.min(this.asked + 1, this.recorded);
      this.diverge(number, describe(this.entries[number]!), "nothing more: it ends");
    }
    if (this.isCheck && this.asked < this.recorded) {
      this.diverge(this.asked + 1, describe(this.entries[this.asked + 1]!), "nothing");
    }
    if (!this.outcome || !this.outcome.ok) return;
    for (const ask of this.asks) {
      if (ask === undefined || ask.isAwaited || ask.isDetached) continue;
      const what = `await ${ask.number} (${describe(this.entries[ask.number]!)})`;
      const message = `${what} was asked for and nobody waits for it: write \`await\` before it, or \`ctx.detach(…)\` around it`;
      this.outcome = { ok: false, error: new FunctionError("FUNCTION_AWAIT_MISSING", message) };
      return;
    }
  }

  /** What the code failed with, for the record. */
  failed(error: unknown): Failed {
    const said = error as any;
    const code = typeof said?.code === "string" ? said.code : "FUNCTION_FAILED";
    return { code, message: String(said?.message ?? error), await: this.newest };
  }

  private diverge(number: number, recorded: string, asked: string): never {
    this.diverged ??= new FunctionDiverged(number, recorded, asked);
    throw this.diverged;
  }

  private checkNow(): void {
    if (this.diverged) throw this.diverged;
    if (!this.isOver) return;
    const message = `this \`ctx\` is that of an instance of \`${this.head.function}\` whose step is over: use it only inside its function`;
    throw new FunctionError("FUNCTION_CONTEXT_OVER", message);
  }

  /** The entry of the next await: the one on record, or none if it is asked for the first time. */
  private next(kind: Kind, name: string, print: Print): { number: number; entry?: Entry } {
    this.checkNow();
    const number = this.asked + 1;
    if (number > AWAITS_MAX) {
      const message = `the log has ${AWAITS_MAX} awaits: start over with \`return ctx.continueAs(input)\` before it is so long`;
      throw new FunctionError("FUNCTION_LOG_FULL", message);
    }
    const asked = () => describeAsk(kind, name, print);
    if (number > this.recorded) {
      if (!this.isLive) this.diverge(number, "nothing", asked());
      this.asked = number;
      return { number };
    }
    const entry = this.entries[number]!;
    if (entry[KIND] !== kind || entry[NAMED] !== name || !isSamePrint([entry[BYTES]!, entry[CRC]!], print)) {
      this.diverge(number, describe(entry), asked());
    }
    this.asked = number;
    return { number, entry };
  }

  /** What was known at once in an earlier step of this program. */
  private replayed(kind: Kind, name: string): Entry | undefined {
    const number = this.asked + 1;
    if (number > this.trusted || this.isOver || this.diverged) return undefined;
    const entry = this.entries[number]!;
    if (entry[NAMED] !== name || entry[KIND] !== kind) return undefined;
    this.asked = number;
    this.asks[number] = undefined;
    return entry;
  }

  /** What this program asked for in an earlier step. Its params are not looked at. */
  again<T>(scope: Scope, kind: Kind, name: string): Ask<T> | undefined {
    const number = this.asked + 1;
    if (number > this.trusted || this.isOver || this.diverged || (this.hasCancelled && scope.over)) return undefined;
    const entry = this.entries[number]!;
    if (entry[NAMED] !== name || entry[KIND] !== kind) return undefined;
    this.asked = number;
    const ask = new Ask<T>(this, number, scope);
    this.asks[number] = ask;
    return ask;
  }

  private newEntry(number: number, kind: Kind, name: string, print: Print): Entry {
    const { nowNs, height } = this.world;
    const entry: Entry = [number, kind, name, "open", null, null, null, print[0], print[1], String(nowNs), Number(height), null, null, null];
    this.entries[number] = entry;
    this.head.asked = number;
    return entry;
  }

  /** Asks for something that ends later. */
  ask<T>(scope: Scope, kind: Kind, name: string, params: unknown, begin: Begin): Ask<T> {
    const again = this.again<T>(scope, kind, name);
    if (again) return again;
    this.checkNow();
    if (scope.over) {
      const ask = new Ask<T>(this, 0, scope);
      ask.settle({ ok: false, error: scope.over });
      return ask;
    }
    const print = printOf(params);
    const { number, entry } = this.next(kind, name, print);
    const ask = new Ask<T>(this, number, scope);
    this.asks[number] = ask;
    if (entry) return ask;
    const made = this.newEntry(number, kind, name, print);
    try {
      begin(labelOf(this.head, number), made, number);
      if (made[STATE] === "open") this.cells.putEntry(this.head, made, this.log);
    } catch (error) {
      const said = error as any;
      // What the host itself refused ends the step, whatever is done here.
      const code = said?.code ?? (said?.name === "Full" || said?.payload ? "FUNCTION_WORLD_FULL" : "OUTPUT_REFUSED");
      this.end(number, "error", { code, reason: String(said?.message ?? said?.payload ?? error), attempts: 0 });
    }
    return ask;
  }

  /** Asks for something that is known at once. */
  instant(kind: Kind, name: string, params: unknown, answer: () => unknown): any {
    const again = this.replayed(kind, name);
    if (again) return again[VALUE] ?? undefined;
    const print = printOf(params);
    const { number, entry } = this.next(kind, name, print);
    this.asks[number] = undefined;
    if (entry) return entry[VALUE] ?? undefined;
    const made = this.newEntry(number, kind, name, print);
    const value = answer();
    made[STATE] = "ok";
    if (value !== undefined) made[VALUE] = value;
    this.cells.putEntry(this.head, made, this.log);
    return value;
  }

  /** Which of two ways in the code this instance goes. */
  version(name: string, from: number, to: number): number {
    this.checkNow();
    const entry = this.entries[this.asked + 1];
    const isRecorded = this.asked + 1 <= this.recorded;
    if (isRecorded && (entry![KIND] !== "version" || entry![NAMED] !== name)) return from;
    // It waits at this place since before the code had two ways.
    if (!isRecorded && !this.isLive) return from;
    const version = isRecorded ? (entry![VALUE] as number) : to;
    this.instant("version", name, null, () => version);
    if (version < from || version > to) {
      this.diverge(this.asked, `version ${version} of \`${name}\``, `a version from ${from} to ${to}`);
    }
    return version;
  }

  /** Ends an await, for the record; the code sees it when its turn comes. */
  end(number: number, state: "ok" | "error", value: unknown): void {
    const entry = this.entries[number]!;
    endEntry(this.world, this.head, entry, state, value);
    this.cells.putEntry(this.head, entry, this.log);
    this.order[entry[ORDER]!] = number;
  }

  private deliver(): void {
    const what = this.order[this.delivered++]!;
    if (what === "cancel") {
      this.now = BigInt(this.head.cancel!.at_ns);
      this.cancel(this.root, this.head.cancel!.reason);
      return;
    }
    const entry = this.entries[what]!;
    const ask = this.asks[what];
    if (ask === undefined) return void this.diverge(what, describe(entry), "nothing so far");
    this.now = entry[ENDED_NS]!;
    this.newest = what;
    if (ask.isSettled) return;
    if (entry[STATE] === "error") ask.fail(failure(entry));
    else ask.fulfil(result(entry));
  }

  /** Ends all waits of a scope, and nothing more is waited for in it. */
  cancel(scope: Scope, reason: string): void {
    if (scope.cancelled) return;
    scope.cancelled = new FunctionCancelled(reason);
    this.hasCancelled = true;
    for (const ask of this.asks) {
      if (ask === undefined || ask.isSettled || !ask.scope.isWithin(scope)) continue;
      this.withdraw(ask);
      ask.settle({ ok: false, error: scope.cancelled });
    }
  }

  /** Gives up what an await waits for. */
  withdraw(ask: Ask<any>): void {
    const entry = this.entries[ask.number];
    if (ask.number === 0 || entry?.[STATE] !== "open" || this.isOver) return;
    if (!this.isLive) this.diverge(ask.number, `${describe(entry)}, which is waited for`, "its withdrawal");
    this.withdrawNumber(ask.number);
  }

  private withdrawNumber(number: number): void {
    const entry = this.entries[number]!;
    withdrawEntry(this.world, this.head, entry);
    entry[STATE] = "cancelled";
    if (entry[RETRY]) entry[RETRY] = null;
    this.cells.putEntry(this.head, entry, this.log);
  }

  /** Gives up all that is open when the function has ended, but effects that it let go. */
  withdrawAll(): void {
    for (const entry of this.log.open) {
      if (entry[KIND] !== "effect" || !this.asks[entry[NUMBER]]?.isDetached) this.withdrawNumber(entry[NUMBER]);
      else if (entry[RETRY]) this.cells.putDetached(instanceOf(this.head), this.head.run, entry);
    }
  }

  /** A kind that mundi.json does not declare, or params that its schema refuses, must not end the step: the code hears of it. */
  checkEffect(kind: string, params: Uint8Array): void {
    if (this.rules === undefined) return;
    if (!this.rules.declares(kind)) {
      const message = `mundi.json does not declare the effect \`${kind}\`: add it to \`effects\``;
      throw new FunctionError("FUNCTION_EFFECT_UNDECLARED", message);
    }
    if (!["fabric.send", "world.spawn"].includes(kind)) this.rules.checkEffect(kind, params);
  }

  /** An event that arrived for this instance before it was asked for. */
  takeSignal(name: string, filter: unknown): { value: unknown } | undefined {
    const signals = this.head.signals ?? [];
    const at = signals.findIndex(([signal, value]) => signal === name && matches(value, filter));
    if (at < 0) return undefined;
    const [[, value]] = signals.splice(at, 1) as [[string, unknown]];
    if (signals.length === 0) delete this.head.signals;
    return { value };
  }

  /** A text that no other await has: the same in every run and for every attempt, another one in a fork. */
  idempotencyKey(number: number): string {
    const { run, seed } = this.head;
    return `${this.world.id}/${instanceOf(this.head)}/${run}.${number}/${seed.toString(16)}`;
  }

  /** The next number of 64 bits. The instance's seed and the number of its run determine the sequence. */
  random(): bigint {
    this.drawn++;
    const mask = (bits: bigint) => BigInt.asUintN(64, bits);
    const seed = BigInt(this.head.seed) + BigInt(this.head.run) * RUN_STEP;
    let mixed = mask(seed + this.drawn * 0x9e3779b97f4a7c15n);
    mixed = mask((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = mask((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    return mixed ^ (mixed >> 31n);
  }
}

/** The cell by which an event finds who waits for it. */
export function waiterKey(head: Head, event: string, number: number): string {
  return `${eventPrefix(event)}${instanceOf(head)}/${head.run}.${number}`;
}

/** Gives up what an await waits for. */
export function withdrawEntry(world: World<any>, head: Head, entry: Entry): void {
  const label = labelOf(head, entry[NUMBER]);
  if (entry[KIND] === "effect") {
    world.cancel(label);
    world.cancelTimer(`${label}/retry`);
    world.cancelTimer(`${label}/timeout`);
  } else if (entry[KIND] === "timer") world.cancelTimer(label);
  else if (entry[KIND] === "event") world.delete(waiterKey(head, entry[NAMED], entry[NUMBER]));
}

/** Ends an await in its cell. A value that is too large becomes an error. */
export function endEntry(world: World<any>, head: Head, entry: Entry, state: "ok" | "error", value: unknown): void {
  const bytes = encode(value ?? null).length;
  if (bytes > VALUE_BYTES_MAX) {
    const reason = `the result has ${bytes} bytes, more than ${VALUE_BYTES_MAX}: put it into a blob`;
    [state, value] = ["error", { code: "FUNCTION_RESULT_TOO_LARGE", reason, attempts: entry[ATTEMPTS] ?? 0 }];
  }
  entry[STATE] = state;
  entry[VALUE] = value ?? null;
  entry[ORDER] = head.resolved++;
  entry[ENDED_NS] = String(world.nowNs);
  entry[ENDED_AT] = Number(world.height);
  if (entry[RETRY]) entry[RETRY] = null;
}

/** Every field of the filter is in the value, and the same. */
export function matches(value: any, filter: any): boolean {
  if (filter === undefined || filter === null) return true;
  if (typeof filter !== "object") return isSamePrint(printOf(value), printOf(filter));
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(filter).every(([name, part]) => isSamePrint(printOf(value[name]), printOf(part)));
}

export function describe(entry: Entry): string {
  return describeAsk(entry[KIND], entry[NAMED], [entry[BYTES]!, entry[CRC]!]);
}

function describeAsk(kind: Kind, name: string, print: Print): string {
  return `${kind} \`${name}\` with params of ${print[0]} bytes and print ${print[1].toString(16).padStart(8, "0")}`;
}

/** The value that the code gets, and may change: it was read from its cell in this step, and is not written again. */
function result(entry: Entry): unknown {
  const value = entry[VALUE] as any;
  if (entry[KIND] !== "effect" || entry[NAMED] !== "http.request") return value ?? undefined;
  return new HttpResponse(value.status, value.headers, value.body);
}

function failure(entry: Entry): Error {
  const value = entry[VALUE] as any;
  if (entry[KIND] === "effect" && !String(value.code).startsWith("FUNCTION_")) return new EffectFailed(entry[NAMED], readError(value));
  return new FunctionError(value.code, value.reason);
}

/** While the code runs, `Date` and `Math.random` are the instance's: the same in every run. */
function ownClock(run: Run): () => void {
  const [OldDate, oldRandom] = [Date, Math.random];
  const now = () => Number(run.nowNs / 1_000_000n);
  const OwnDate = function (this: unknown, ...given: any[]) {
    if (!new.target) return new OldDate(now()).toString();
    return Reflect.construct(OldDate, given.length === 0 ? [now()] : given, new.target);
  } as unknown as DateConstructor;
  Object.setPrototypeOf(OwnDate, OldDate);
  Object.defineProperty(OwnDate, "prototype", { value: OldDate.prototype });
  OwnDate.now = now;
  globalThis.Date = OwnDate;
  Math.random = () => Number(run.random() >> 11n) / 2 ** 53;
  return () => {
    globalThis.Date = OldDate;
    Math.random = oldRandom;
  };
}
