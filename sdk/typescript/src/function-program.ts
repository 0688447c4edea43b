/** A program with durable functions: which event, receipt and timer goes to which instance. */

import { decode, encode } from "./cbor.ts";
import {
  ATTEMPTS,
  CALLERS_MAX,
  Cells,
  type Entry,
  type Failed,
  type Head,
  INBOX,
  INSTANCES_MAX,
  KIND,
  Log,
  NAMED,
  NUMBER,
  RETRY,
  SIGNALS_BYTES_MAX,
  SIGNALS_MAX,
  STATE,
  STATUS_BYTES_MAX,
  VALUE_BYTES_MAX,
  WAITERS_MAX,
  WOKEN_MAX,
  eventPrefix,
  instanceOf,
  isName,
  isSamePrint,
  labelOf,
  ofLabel,
  printOf,
} from "./function-cells.ts";
import { FunctionCancelled, FunctionError } from "./function-errors.ts";
import { Continue, Run, endEntry, matches, waiterKey, withdrawEntry } from "./function-run.ts";
import { Ctx, Durable } from "./functions.ts";
import type { AnyEffects, Cause, Event, Program, World } from "./index.ts";
import { errorValue } from "./kinds.ts";
import { type Offer, Rules } from "./offer.ts";

/** Fuel of a step, and host calls, of which each thousand units of fuel count as one. */
const FUEL_MAX = 200_000_000;
const STEP_CALLS_MAX = 300_000;
const RETRY_MS = 1000;
const RETRY_MS_MAX = 60_000;
/** Errors that another attempt does not mend. */
const FINAL = ["EFFECT_CANCELLED", "EFFECT_SANDBOXED", "EFFECT_NOT_RECORDED", "EFFECT_DENIED", "UNIVERSE_DENIED"];

type Code = Durable["code"];
type Handlers<Effects> = Partial<Pick<Program<Effects>, "handle" | "query">>;

/** A program of durable functions, and perhaps of handlers beside them: `handle` takes all that is not for a function. */
export function program<Effects = AnyEffects>(
  parts: Handlers<Effects> & { [name: string]: Durable | Program<any>["handle"] | Program<any>["query"] },
): Program<Effects> & Required<Pick<Program<Effects>, "describeTo" | "offered">> {
  const functions = new Map<string, Code>();
  for (const [name, part] of Object.entries(parts)) {
    if (!(part instanceof Durable)) continue;
    if (!isName(name) || name.length > 64) throw new TypeError(`\`${name}\` cannot be the name of a durable function`);
    functions.set(name, part.code);
  }
  const { handle, query } = parts as Handlers<Effects>;
  const made = new Functions(functions, handle);
  return {
    handle: (world, event) => made.handle(world, event),
    ...(query ? { query } : {}),
    describeTo: (offer) => void (made.rules = new Rules(offer)),
    offered: (offer) => (functions.size > 0 ? withLimits(offer) : offer),
  };
}

/** What a step of a durable function may use, so that one with a thousand awaits comes to its end: mundi.json may say otherwise. */
function withLimits(offer: Offer): Offer {
  const { limits, wasm } = offer;
  const fuel = { fuel_max: FUEL_MAX, ...wasm?.limits };
  return { ...offer, limits: { step_calls_max: STEP_CALLS_MAX, ...limits }, wasm: { ...wasm, limits: fuel } };
}

class Functions {
  /** What mundi.json declares, if the host has said so. */
  rules: Rules | undefined;

  constructor(
    private functions: Map<string, Code>,
    private handler: Program<any>["handle"] | undefined,
  ) {}

  handle(world: World<any>, event: Event): void | Promise<void> {
    const { cause } = event;
    const step = new Instances(this.functions, this.rules, world, event);
    switch (cause.is) {
      case "event":
        return this.functions.has(cause.schema) ? step.start(cause) : this.event(step, world, event, cause);
      case "receipt":
      case "timer": {
        const named = ofLabel(cause.label);
        if (named === undefined) return this.handler?.(world, event);
        return cause.is === "receipt" ? step.receipt(named, cause) : step.timer(named);
      }
      case "message":
        if (cause.inbox === INBOX) return step.command(decode(cause.payload));
        // The start of a child of a function: it waits for the end.
        if (cause.inbox === "child.started" && ofLabel(cause.headers.find(([name]) => name === "label")?.[1] ?? "")) return;
        return this.handler?.(world, event);
      case "upgraded":
        return this.upgraded(step, world, event);
    }
  }

  private async event(step: Instances, world: World<any>, event: Event, cause: Cause & { is: "event" }): Promise<void> {
    const taken_by = await step.event(cause);
    if (taken_by.length === 0 && this.handler) await this.handler(world, event);
    else if (event.origin.wantsReply) world.reply(event.seq, { taken_by });
  }

  private async upgraded(step: Instances, world: World<any>, event: Event): Promise<void> {
    await step.check();
    await this.handler?.(world, event);
  }
}

type Named = NonNullable<ReturnType<typeof ofLabel>>;

/** The instances of a world, in one step. */
class Instances {
  private cells: Cells;

  constructor(
    private functions: Map<string, Code>,
    private rules: Rules | undefined,
    private world: World<any>,
    private given: Event,
  ) {
    this.cells = new Cells(world);
  }

  /** Starts an instance, or finds the one that has this key. */
  async start(cause: Cause & { is: "event" }): Promise<void> {
    const key = cause.key || this.given.seq;
    if (!isName(key)) {
      throw new FunctionError("FUNCTION_KEY_INVALID", `\`${key}\` is no key: 1 to 128 of letters, digits and \`-_.:@\``);
    }
    const head = this.cells.head(`${cause.schema}/${key}`);
    const input = printOf(cause.value);
    if (head) return this.again(head, input);
    if (input[0] > VALUE_BYTES_MAX) {
      throw new FunctionError("FUNCTION_INPUT_TOO_LARGE", `the input has ${input[0]} bytes, more than ${VALUE_BYTES_MAX}`);
    }
    if (this.cells.totals().running >= INSTANCES_MAX) {
      throw new FunctionError("FUNCTIONS_FULL", `the world has ${INSTANCES_MAX} instances that have not ended`);
    }
    this.cells.began();
    const began: Head = {
      format: 2,
      function: cause.schema,
      key,
      state: "running",
      run: 0,
      seed: Number(this.world.random() >> 11n),
      input,
      began_ns: this.world.nowNs,
      asked: 0,
      resolved: 0,
      ran: 0,
      waits: [],
      callers: this.given.origin.wantsReply ? [this.given.seq] : [],
    };
    await this.advance(began, this.putStart(began, cause.value));
  }

  private putStart(head: Head, input: unknown): Log {
    const { nowNs, height } = this.world;
    const [bytes, crc] = printOf(input);
    const entry: Entry = [0, "start", head.function, "ok", null, null, input ?? null, bytes, crc, String(nowNs), Number(height), null, null, null];
    const log = new Log();
    log.entries.push(entry);
    this.cells.putEntry(head, entry, log);
    return log;
  }

  /** The key is in use: the same call gets the same answer, another one is refused. */
  private again(head: Head, input: [number, number]): void {
    if (!isSamePrint(head.input, input)) {
      throw new FunctionError("FUNCTION_KEY_REUSED", `${instanceOf(head)} was started with another input: choose another key`);
    }
    if (!this.given.origin.wantsReply) return;
    if (head.ended_ns !== undefined) return this.world.reply(this.given.seq, answerOf(head));
    if (head.callers.length >= CALLERS_MAX) {
      throw new FunctionError("FUNCTIONS_FULL", `${CALLERS_MAX} callers wait for ${instanceOf(head)}`);
    }
    head.callers.push(this.given.seq);
    this.world.put(`$fn/i/${instanceOf(head)}`, head);
  }

  /** Runs an instance as far as it comes, and keeps what has become of it. */
  private async advance(head: Head, log: Log): Promise<void> {
    const code = this.functions.get(head.function);
    const run = new Run(this.world, this.cells, head, log, this.rules, false);
    if (head.paused) return this.cells.putHead(head, log.open);
    if (code === undefined) {
      const message = `the program has no durable function \`${head.function}\``;
      return this.stand(head, run, { code: "FUNCTION_DIVERGED", message, await: 0 });
    }
    await run.execute((run, input) => code(new Ctx(run, run.root), input));
    if (run.diverged) {
      const { code, message, awaitNumber } = run.diverged;
      return this.stand(head, run, { code, message, await: awaitNumber });
    }
    head.ran = run.ran;
    if (run.status !== undefined) {
      const bytes = encode(run.status).length;
      if (bytes > STATUS_BYTES_MAX) {
        const message = `the status has ${bytes} bytes, more than ${STATUS_BYTES_MAX}: put it into a cell`;
        return this.end(run, head, { ok: false, error: new FunctionError("FUNCTION_RESULT_TOO_LARGE", message) });
      }
      head.status = run.status;
    }
    if (head.state === "diverged") {
      head.state = "running";
      delete head.error;
    }
    if (run.outcome) return this.end(run, head, run.outcome);
    const { open } = log;
    if (open.length > 0) {
      this.cells.compact(head, log);
      return this.cells.putHead(head, open);
    }
    const message = "the function waits for something that never comes: wait for what `ctx` gives, or for promises made of that";
    this.end(run, head, { ok: false, error: new FunctionError("FUNCTION_STUCK", message) });
  }

  /** Nothing is lost: it goes on when the program does again what is on record. */
  private stand(head: Head, run: Run, error: Failed): void {
    head.state = "diverged";
    head.error = error;
    this.world.log("error", `${instanceOf(head)}: ${error.code}: ${error.message}`);
    this.cells.putHead(head, run.log.open);
  }

  private end(run: Run, head: Head, outcome: NonNullable<Run["outcome"]>): void {
    run.withdrawAll();
    head.state = "done";
    if (outcome.ok) {
      try {
        if (outcome.value instanceof Continue) {
          const size = encode(outcome.value.input ?? null).length;
          if (size <= VALUE_BYTES_MAX) return this.startOver(head, outcome.value.input);
          const message = `the input to start over with has ${size} bytes, more than ${VALUE_BYTES_MAX}`;
          throw new FunctionError("FUNCTION_INPUT_TOO_LARGE", message);
        }
        const value = outcome.value ?? null;
        const bytes = encode(value).length;
        if (bytes > VALUE_BYTES_MAX) throw new FunctionError("FUNCTION_RESULT_TOO_LARGE", `the result has ${bytes} bytes`);
        head.result = value;
      } catch (error) {
        outcome = { ok: false, error };
      }
    }
    if (!outcome.ok) {
      head.state = head.cancel && outcome.error instanceof FunctionCancelled ? "cancelled" : "failed";
      head.error = run.failed(outcome.error);
    }
    head.ended_ns = this.world.nowNs;
    delete head.signals;
    for (const caller of head.callers) this.world.reply(caller, answerOf(head));
    head.callers = [];
    this.cells.putHead(head, []);
    this.cells.ended(head);
  }

  /** In a step of its own, so that a function that only starts over does not fill one. */
  private startOver(head: Head, input: unknown): void {
    this.cells.deleteLog(head);
    Object.assign(head, { state: "running", run: head.run + 1, asked: 0, resolved: 0, ran: 0 });
    delete head.cancel;
    this.putStart(head, input);
    this.world.setTimer(`$fn/${instanceOf(head)}/${head.run}.start`, this.world.nowNs);
    this.cells.putHead(head, []);
  }

  /** The instance and the await that a label names, if they are still open. */
  private find({ instance, run, number }: Named): { head: Head; entry: Entry } | undefined {
    const head = this.cells.head(instance);
    if (head === undefined || head.run !== run || head.ended_ns !== undefined || number === undefined) return undefined;
    const entry = this.cells.entry(head, number);
    return entry?.[STATE] === "open" ? { head, entry } : undefined;
  }

  private async resolve(head: Head, entry: Entry, state: "ok" | "error", value: unknown): Promise<void> {
    endEntry(this.world, head, entry, state, value);
    this.cells.putEntry(head, entry);
    await this.advance(head, this.cells.log(head));
  }

  async receipt(named: Named, cause: Cause & { is: "receipt" }): Promise<void> {
    const found = this.find(named);
    if (found === undefined) return this.detachedReceipt(named, cause);
    const { head, entry } = found;
    const label = labelOf(head, entry[NUMBER]);
    if (cause.status === "ok") {
      this.world.cancelTimer(`${label}/timeout`);
      const value = decode(cause.payload);
      return this.resolve(head, entry, ...failedCall(entry, value));
    }
    const error = errorValue(cause.payload);
    const attempts = entry[ATTEMPTS] ?? 1;
    if (mayRetry(entry, error)) {
      this.world.setTimerInMs(`${label}/retry`, waitMs(attempts));
      entry[ATTEMPTS] = attempts;
      return this.cells.putEntry(head, entry);
    }
    this.world.cancelTimer(`${label}/timeout`);
    await this.resolve(head, entry, "error", { ...error, attempts });
  }

  async timer(named: Named): Promise<void> {
    if (named.number === undefined) {
      const head = this.cells.head(named.instance);
      if (head?.run === named.run && head.ended_ns === undefined) await this.advance(head, this.cells.log(head));
      return;
    }
    const found = this.find(named);
    if (found === undefined) return this.detachedTimer(named);
    const { head, entry } = found;
    const label = labelOf(head, entry[NUMBER]);
    if (named.part === "retry") {
      this.world.emit(entry[NAMED], entry[RETRY]![1] as any, label);
      entry[ATTEMPTS] = (entry[ATTEMPTS] ?? 1) + 1;
      return this.cells.putEntry(head, entry);
    }
    if (named.part === "timeout") {
      this.world.cancel(label);
      this.world.cancelTimer(`${label}/retry`);
      const reason = "no receipt came within the timeout of the await";
      return this.resolve(head, entry, "error", { code: "EFFECT_TIMEOUT", reason, attempts: entry[ATTEMPTS] ?? 1 });
    }
    await this.resolve(head, entry, "ok", null);
  }

  /** The receipt of an effect that a function let go, and that is tried again without it. */
  private detachedReceipt({ instance, run, number = 0 }: Named, cause: Cause & { is: "receipt" }): void {
    const entry = this.cells.detached(instance, run, number);
    if (entry === undefined) return;
    const label = `$fn/${instance}/${run}.${number}`;
    if (cause.status !== "ok" && mayRetry(entry, errorValue(cause.payload))) {
      return this.world.setTimerInMs(`${label}/retry`, waitMs(entry[ATTEMPTS] ?? 1));
    }
    this.world.cancelTimer(`${label}/timeout`);
    this.cells.forgetDetached(instance, run, number);
  }

  private detachedTimer({ instance, run, number = 0, part }: Named): void {
    const entry = this.cells.detached(instance, run, number);
    if (entry === undefined) return;
    const label = `$fn/${instance}/${run}.${number}`;
    if (part === "retry") {
      this.world.emit(entry[NAMED], entry[RETRY]![1] as any, label);
      entry[ATTEMPTS] = (entry[ATTEMPTS] ?? 1) + 1;
      return this.cells.putDetached(instance, run, entry);
    }
    this.world.cancel(label);
    this.world.cancelTimer(`${label}/retry`);
    this.cells.forgetDetached(instance, run, number);
  }

  /** An event that starts no function. Says which instances took it. */
  async event({ schema, value, key }: Cause & { is: "event" }): Promise<string[]> {
    const addressed = key === undefined ? [] : this.running(key);
    if (addressed.length > 0) {
      for (const head of addressed) await this.signal(head, schema, value);
      return addressed.map(instanceOf);
    }
    const taken: string[] = [];
    const prefix = eventPrefix(schema);
    const waiters = this.world.scan<any>(prefix, undefined, WAITERS_MAX);
    if (waiters.length > 0 && this.world.scan<any>(prefix, waiters.at(-1)![0], 1).length > 0) {
      const message = `more than ${WAITERS_MAX} awaits wait for \`${schema}\`: send it with the key of an instance`;
      throw new FunctionError("FUNCTIONS_FULL", message);
    }
    const woken = waiters.filter(([, filter]) => matches(value, filter));
    if (woken.length > WOKEN_MAX) {
      const message = `more than ${WOKEN_MAX} awaits would take this \`${schema}\`: send it with the key of an instance`;
      throw new FunctionError("FUNCTIONS_FULL", message);
    }
    for (const [waiter] of woken) {
      const named = ofLabel(`$fn/${waiter.slice(prefix.length)}`);
      const found = named && this.find(named);
      if (!found) continue;
      this.world.delete(waiter);
      taken.push(instanceOf(found.head));
      await this.resolve(found.head, found.entry, "ok", value);
    }
    return taken;
  }

  private running(key: string): Head[] {
    if (!isName(key)) return [];
    const heads = [...this.functions.keys()].sort().map((name) => this.cells.head(`${name}/${key}`));
    return heads.filter((head): head is Head => head !== undefined && head.ended_ns === undefined);
  }

  /** An event for one instance: what it waits for first, or kept until it asks. */
  private async signal(head: Head, name: string, value: unknown): Promise<void> {
    const entry = this.cells.log(head).open.find(
      (entry) =>
        entry[NAMED] === name &&
        (entry[KIND] === "signal" || (entry[KIND] === "event" && matches(value, this.world.get(waiterKey(head, name, entry[NUMBER]))))),
    );
    if (entry) {
      if (entry[KIND] === "event") this.world.delete(waiterKey(head, name, entry[NUMBER]));
      return this.resolve(head, entry, "ok", value);
    }
    const signals: [string, unknown][] = [...(head.signals ?? []), [name, value]];
    const bytes = signals.reduce((sum, [, value]) => sum + encode(value ?? null).length, 0);
    if (signals.length > SIGNALS_MAX || bytes > SIGNALS_BYTES_MAX) {
      const most = `${SIGNALS_MAX} events or ${SIGNALS_BYTES_MAX >> 10} KiB`;
      const message = `${instanceOf(head)} has as much as it may have that it has not asked for: ${most}`;
      throw new FunctionError("FUNCTION_SIGNALS_FULL", message);
    }
    head.signals = signals;
    this.world.put(`$fn/i/${instanceOf(head)}`, head);
  }

  /**
   * `{"cancel": "order/17", "reason": …}`, `{"pause": …}`, `{"resume": …}` or `{"resolve": …, "await": 3, "ok": …}`, with `error` in place of
   * `ok` for a failure: what an operator asks for. And `{"check": ["order/17", …]}`: which of these would diverge on this program, which a
   * rehearsal asks.
   */
  async command(command: any): Promise<void> {
    if (Array.isArray(command?.check)) return this.answerCheck(command.check);
    const [verb, instance] = Object.entries(command ?? {}).find(([verb]) => ["cancel", "pause", "resume", "resolve"].includes(verb)) ?? [];
    const head = this.cells.head(String(instance));
    if (verb === undefined || head === undefined) {
      throw new FunctionError("FUNCTION_NOT_FOUND", `there is no instance \`${instance ?? ""}\` to ${verb ?? "change"}`);
    }
    if (verb === "resolve") await this.givenResult(head, command);
    else if (head.ended_ns === undefined) await this.obey(head, verb, String(command.reason ?? "it was cancelled"));
    if (this.given.origin.wantsReply) this.world.reply(this.given.seq, { instance: instanceOf(head), state: head.state });
  }

  private async obey(head: Head, verb: string, reason: string): Promise<void> {
    if (verb === "pause") head.paused = true;
    else delete head.paused;
    if (verb === "cancel" && !head.cancel) head.cancel = { order: head.resolved++, reason, at_ns: this.world.nowNs };
    await this.advance(head, this.cells.log(head));
  }

  /** Ends an open await with a result that is given, in place of what it waits for. */
  private async givenResult(head: Head, command: any): Promise<void> {
    const number = Number(command.await);
    const entry = head.ended_ns === undefined && number > 0 ? this.cells.entry(head, number) : undefined;
    if (entry?.[STATE] !== "open") {
      throw new FunctionError("FUNCTION_NOT_FOUND", `${instanceOf(head)} does not wait for await ${number}`);
    }
    withdrawEntry(this.world, head, entry);
    if (command.error === undefined) return this.resolve(head, entry, "ok", command.ok ?? null);
    const { code = "", reason = "" } = command.error ?? {};
    await this.resolve(head, entry, "error", { code: String(code), reason: String(reason), attempts: entry[ATTEMPTS] ?? 0 });
  }

  /** This program takes over: unless an instance would go another way than is on record. */
  async check(): Promise<void> {
    const diverged: string[] = [];
    const standing: Head[] = [];
    for (const head of this.cells.heads()) {
      if (head.ended_ns !== undefined) continue;
      const differs = await this.wouldDiverge(head);
      if (differs) diverged.push(`${instanceOf(head)}: ${differs.message}`);
      else if (head.state === "diverged") standing.push(head);
    }
    if (diverged.length > 0) {
      const shown = diverged.slice(0, 20).join("; ");
      throw new FunctionError("FUNCTION_DIVERGED", `${diverged.length} instances would diverge: ${shown}`);
    }
    for (const head of standing) await this.advance(head, this.cells.log(head));
  }

  /** At which await an instance would go another way than is on record, and how. */
  private async wouldDiverge(head: Head): Promise<{ await: number; message: string } | undefined> {
    if (head.format !== 2) {
      return { await: 0, message: "it is on record in another format: let it end on the program that it runs on" };
    }
    const code = this.functions.get(head.function);
    if (code === undefined) return { await: 0, message: `the program has no function \`${head.function}\`` };
    const run = new Run(this.world, this.cells, { ...head }, this.cells.log(head), this.rules, true);
    if (head.ran > 0) await run.execute((run, input) => code(new Ctx(run, run.root), input));
    return run.diverged && { await: run.diverged.awaitNumber, message: run.diverged.message };
  }

  private async answerCheck(names: unknown[]): Promise<void> {
    const diverged: { instance: string; await: number; message: string }[] = [];
    for (const instance of names.map(String)) {
      const head = this.cells.head(instance);
      const differs = head && head.ended_ns === undefined ? await this.wouldDiverge(head) : undefined;
      if (differs) diverged.push({ instance, ...differs });
    }
    if (this.given.origin.wantsReply) this.world.reply(this.given.seq, { diverged });
  }
}

function mayRetry(entry: Entry, error: Record<string, unknown>): boolean {
  const retry = entry[RETRY];
  return !!retry && (entry[ATTEMPTS] ?? 1) <= retry[0] && !FINAL.includes(String(error["code"]));
}

/** How long to wait after so many attempts. */
const waitMs = (attempts: number) => Math.min(RETRY_MS * 2 ** (attempts - 1), RETRY_MS_MAX);

/** A called function that failed answers with its failure, which is one here, too. */
function failedCall(entry: Entry, value: any): ["ok" | "error", unknown] {
  const failed = entry[NAMED] === "world.call" && typeof value === "object" && value !== null ? value["$function_failed"] : undefined;
  if (failed === undefined) return ["ok", value];
  return ["error", { code: "CALL_FAILED", reason: failed.message, attempts: entry[ATTEMPTS] ?? 1, failed_code: failed.code }];
}

/** What callers of an instance that has ended hear. */
function answerOf(head: Head): unknown {
  if (head.state === "done") return head.result ?? null;
  return { $function_failed: { instance: instanceOf(head), state: head.state, ...head.error! } };
}
