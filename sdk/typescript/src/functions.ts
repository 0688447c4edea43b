/**
 * Durable functions: what should happen, in order, as ordinary `async` code.
 *
 *     export default program({
 *       order: durable(async (ctx: Ctx<Effects>, order: Order) => {
 *         const charge = await ctx.effect("payment.charge", { cents: order.cents }, { retry: 3 });
 *         const approval = await ctx.race([ctx.event("approve"), ctx.sleep("1h")]);
 *         if (!approval) await ctx.effect("payment.refund", charge);
 *         return { state: approval ? "placed" : "expired" };
 *       }),
 *     });
 *
 * An event with the function's name starts an instance under the event's key; the reply is what the function returns. What it awaits
 * is on record in the world's cells, and each step runs it from its beginning on that.
 */

import { encode } from "./cbor.ts";
import { type Budget, childSpec } from "./children.ts";
import { ATTEMPTS, type Head, type Kind, RETRY, headKey, isName, milliseconds } from "./function-cells.ts";
import { FunctionError } from "./function-errors.ts";
import { Ask, Continue, type Run, Scope, waiterKey } from "./function-run.ts";
import { type AnyEffects, type Level, type Outgoing, type World, event } from "./index.ts";
import type { Sent, Spawned, WorldCall } from "./kinds.ts";

export { EffectFailed, FunctionCancelled, FunctionDiverged, FunctionError } from "./function-errors.ts";
export { program } from "./function-program.ts";
export { type Ask } from "./function-run.ts";

/** A number of milliseconds, or `500ms`, `30s`, `5m`, `1h`, `2d`. */
export type Duration = number | string;

export interface EffectOptions {
  /** How often it is asked for again when it fails, after 1 s, 2 s, 4 s and so on up to a minute. 0 if absent. */
  retry?: number;
  /** How long to wait for it, all attempts together. Then it is withdrawn, and fails with `EFFECT_TIMEOUT`. */
  timeout?: Duration;
  /**
   * The field of its params that gets a key, unless they have one: the same for every attempt of this await, another one for every other await
   * and in a fork. A worker recognizes by it an attempt whose answer was lost. An `http.request` that is retried has it in its header
   * `idempotency-key` anyway.
   */
  keyIn?: string;
}

export interface ChildOptions {
  /** What it may use. */
  budget?: Budget;
  /** How long to wait for it. Then it is cancelled, and the wait fails with `EFFECT_TIMEOUT`. */
  timeout?: Duration;
}

/** What a child that passed left. */
export interface ChildPassed<T> {
  result: T;
  /** What was debited for it. */
  spent: Budget;
  child_id: string;
  /** The world that ran it, of a child of kind `world`. */
  world?: string;
}

type ParamsOf<Effects, K> = K extends keyof Effects ? (Effects[K] extends { params: infer P } ? P : any) : never;
type ReceiptOf<Effects, K> = K extends keyof Effects ? (Effects[K] extends { receipt: infer R } ? R : any) : never;
/** The result of a race of such branches. */
type Raced<T> = T extends (...given: any[]) => infer V ? Awaited1<V> : Awaited1<T>;
type Awaited1<T> = T extends PromiseLike<infer V> ? V : T;

/** All that a durable function can do. What it returns is to be awaited, but for what is known at once. */
export class Ctx<Effects = AnyEffects> {
  constructor(
    private run: Run,
    private scope_: Scope,
  ) {}

  /** The key of this instance. */
  get key(): string {
    return this.run.head.key;
  }

  /** The id of the world. */
  get world(): string {
    return this.run.world.id;
  }

  /** Milliseconds since 1970: the world's clock when the newest result came. `Date` says the same. */
  get now(): number {
    return Number(this.run.nowNs / 1_000_000n);
  }

  get nowNs(): bigint {
    return this.run.nowNs;
  }

  /** The next number, of 64 bits, of a sequence that is this instance's. `Math.random()` draws from the same. */
  random(): bigint {
    return this.run.random();
  }

  /** Asks for an effect that mundi.json declares. Fails with an `EffectFailed`. */
  effect<K extends keyof Effects & string>(
    kind: K,
    params: ParamsOf<Effects, K>,
    options?: EffectOptions,
  ): Ask<ReceiptOf<Effects, K>> {
    return this.run.again<any>(this.scope_, "effect", kind) ?? this.emit(kind, params, options ?? {});
  }

  private emit(kind: string, params: unknown, options: EffectOptions): Ask<any> {
    const { run } = this;
    const { retry = 0, timeout } = options;
    return run.ask(this.scope_, "effect", kind, params ?? null, (label, entry, number) => {
      const given = keyed(kind, params ?? null, options, () => run.idempotencyKey(number));
      run.checkEffect(kind, encode(given));
      if (retry > 0) entry[RETRY] = [retry, given];
      this.setTimeout(label, timeout);
      entry[ATTEMPTS] = 1;
      run.world.emit(kind, given as any, label);
    });
  }

  private setTimeout(label: string, timeout: Duration | undefined): void {
    if (timeout !== undefined) this.run.world.setTimerInMs(`${label}/timeout`, milliseconds(timeout));
  }

  /** Calls another world, by its id or its name, and waits for its reply. A durable function there answers with its result. */
  call<T = any>(
    world: string,
    event: string,
    value: unknown = null,
    options: Omit<WorldCall, "world" | "event" | "value"> & EffectOptions = {},
  ): Ask<T> {
    const { retry, timeout, keyIn, ...more } = options;
    const said: EffectOptions = {};
    if (keyIn !== undefined) said.keyIn = keyIn;
    if (retry !== undefined) said.retry = retry;
    if (timeout !== undefined) said.timeout = timeout;
    return this.emit("world.call", { world, event, value, ...more }, said);
  }

  /** Sends an event to another world. Ends when it is in that world's inbox. */
  send(world: string, schema: string, value: unknown = null): Ask<Sent> {
    const { run } = this;
    return run.ask(this.scope_, "effect", "fabric.send", { world, schema, value }, (label, entry) => {
      run.checkEffect("fabric.send", new Uint8Array());
      entry[ATTEMPTS] = 1;
      run.world.send(world, event(schema, value), label);
    });
  }

  /** Asks for a new world of a program, by its name or its manifest's hash, which gets a first event. Ends when it is there. */
  spawn(program: string, first?: { schema: string; value?: unknown }): Ask<Spawned> {
    const { run } = this;
    return run.ask(this.scope_, "effect", "world.spawn", { program, first }, (label, entry) => {
      run.checkEffect("world.spawn", new Uint8Array());
      entry[ATTEMPTS] = 1;
      const outgoing: Outgoing | undefined = first && event(first.schema, first.value ?? null);
      run.world.spawn(program, outgoing, label);
    });
  }

  /**
   * Runs a child of a kind (`process`, `world`, `agent`, `external`), which is started at most once, and waits for what it returns. Whoever
   * withdraws the wait (a race, a scope, a timeout, the end of the function) cancels the child.
   */
  child<T = any>(kind: string, params?: unknown, { budget = {}, timeout }: ChildOptions = {}): Ask<ChildPassed<T>> {
    return this.emit("child.spawn", childSpec(kind, params, budget), timeout === undefined ? {} : { timeout });
  }

  /** Waits so long. Ends with `undefined`. */
  sleep(duration: Duration): Ask<undefined> {
    const ms = milliseconds(duration);
    return this.run.ask(this.scope_, "timer", "sleep", ms, (label) => this.run.world.setTimerInMs(label, ms));
  }

  /** Waits until a time: milliseconds since 1970, a `Date`, or a text such as `2031-05-01T12:00:00Z`. */
  until(time: number | Date | string): Ask<undefined> {
    const ms = typeof time === "string" ? Date.parse(time) : Number(time);
    if (!Number.isSafeInteger(ms) || ms < 0) throw new TypeError(`\`${time}\` is no time`);
    return this.run.ask(this.scope_, "timer", "until", ms, (label) => {
      this.run.world.setTimer(label, BigInt(ms) * 1_000_000n);
    });
  }

  /**
   * Waits for an event of the world with this name, whose fields are those of the filter. One that is sent with this instance's key
   * goes to this instance alone, also if it comes before it is waited for; one without a key goes to all that wait at that moment.
   */
  event<T = any>(name: string, filter?: Record<string, unknown>): Ask<T> {
    return this.listen("event", name, filter);
  }

  /** Waits for an event with this name that is sent with this instance's key, and for no other. */
  signal<T = any>(name: string): Ask<T> {
    return this.listen("signal", name, undefined);
  }

  private listen(kind: Kind, name: string, filter: Record<string, unknown> | undefined): Ask<any> {
    const { run } = this;
    if (!isName(name)) throw new TypeError(`\`${name}\` cannot be the name of an event that is waited for`);
    return run.ask(this.scope_, kind, name, filter, (_, entry, number) => {
      const early = run.takeSignal(name, filter);
      if (early) return run.end(number, "ok", early.value);
      if (kind === "event") run.world.put(waiterKey(run.head, name, number), filter ?? null);
    });
  }

  /** Waits for all; fails with the first that fails. */
  async all<T extends readonly unknown[]>(waits: [...T]): Promise<{ -readonly [N in keyof T]: Awaited1<T[N]> }> {
    return (await Promise.all(waits)) as any;
  }

  /**
   * Waits for the first that ends, in whichever way, and withdraws the others. A branch that waits for several things in turn is a function,
   * `async (ctx) => …`: what it waits for with the `ctx` that it gets ends with `FunctionCancelled` when another branch ends first.
   */
  async race<T extends PromiseLike<unknown> | ((ctx: Ctx<Effects>) => PromiseLike<unknown>)>(waits: Iterable<T>): Promise<Raced<T>> {
    const running = new Set<Scope>();
    const begin = (wait: T): PromiseLike<unknown> => {
      if (typeof wait !== "function") return wait;
      const scope = new Scope(this.scope_, false);
      running.add(scope);
      const ended = () => running.delete(scope);
      return Promise.resolve(wait(new Ctx<Effects>(this.run, scope))).finally(ended);
    };
    const given = [...waits].map(begin);
    try {
      return (await Promise.race(given)) as Raced<T>;
    } finally {
      for (const wait of given) if (wait instanceof Ask && !wait.isSettled) this.run.withdraw(wait);
      for (const scope of running) this.run.cancel(scope, "another branch of the race ended first");
    }
  }

  /** Lets something go: the function ends without it, and an effect is not withdrawn then. */
  detach(wait: PromiseLike<unknown>): void {
    if (wait instanceof Ask) wait.isDetached = true;
    wait.then(undefined, () => undefined);
  }

  /** What is waited for in the scope ends with `FunctionCancelled` when `cancel` is called, and only that. */
  scope(): { ctx: Ctx<Effects>; cancel: (reason?: string) => void } {
    const scope = new Scope(this.scope_, false);
    const cancel = (reason = "the scope was cancelled") => this.run.cancel(scope, reason);
    return { ctx: new Ctx<Effects>(this.run, scope), cancel };
  }

  /** Runs cleanup that is not cancelled with the instance: compensation goes here. Wait with the `ctx` that it gets. */
  async shield<T>(cleanup: (ctx: Ctx<Effects>) => PromiseLike<T>): Promise<T> {
    return cleanup(new Ctx<Effects>(this.run, new Scope(this.scope_, true)));
  }

  /** At most so many at a time: `const limit = ctx.limit(5); await ctx.all(orders.map((it) => limit(() => ctx.effect("pay", it))))`. */
  limit(max: number): <T>(begin: () => PromiseLike<T>) => Promise<T> {
    if (!Number.isSafeInteger(max) || max < 1) throw new TypeError("a limit is at least 1");
    let running = 0;
    const queue: (() => void)[] = [];
    return async (begin) => {
      if (running >= max) await new Promise<void>((resolve) => void queue.push(resolve));
      else running++;
      try {
        return await begin();
      } finally {
        const next = queue.shift();
        if (next) next();
        else running--;
      }
    };
  }

  /** What a cell of the world holds now. It is on record: a later run sees the same. */
  get<T>(key: string): T | undefined {
    return this.run.instant("get", key, null, () => this.run.world.get(key));
  }

  put(key: string, value: unknown): void {
    checkCell(key);
    this.run.instant("put", key, value, () => this.run.world.put(key, value));
  }

  delete(key: string): void {
    checkCell(key);
    this.run.instant("delete", key, null, () => this.run.world.delete(key));
  }

  /** What people see of the instance while it runs. */
  status(value: unknown): void {
    this.run.status = value;
  }

  /** A line for people. One that was written in an earlier step is not written again. */
  log(text: string, level: Level = "info"): void {
    if (this.run.isLive) this.run.world.log(level, `${this.run.head.function}/${this.key}: ${text}`);
  }

  /** Which version of the code this instance goes through here: `from` if it passed this place before there was another, else `to`. */
  version(name: string, from: number, to: number): number {
    return this.run.version(name, from, to);
  }

  /** `return ctx.continueAs(input)` starts the function over with another input and an empty log. */
  continueAs(input: unknown): never {
    return new Continue(input) as never;
  }
}

/** The newest status of an instance, by its function and its key: for queries and handlers of the same world. */
export function functionStatus(world: World<any>, name: string, key: string): any {
  return world.get<Head>(headKey(`${name}/${key}`))?.status;
}

/**
 * The params with a key that is the same for every attempt of an await. It is not part of what is compared with the record, because it names
 * the world, which is another one in a fork.
 */
function keyed(kind: string, params: any, { keyIn, retry = 0 }: EffectOptions, key: () => string): any {
  if (typeof params !== "object" || params === null || Array.isArray(params)) return params;
  let given = keyIn !== undefined && params[keyIn] === undefined ? { ...params, [keyIn]: key() } : params;
  if (kind !== "http.request" || retry === 0) return given;
  const headers = given.headers ?? {};
  const hasOne = Object.keys(headers).some((name) => name.toLowerCase() === "idempotency-key");
  return hasOne ? given : { ...given, headers: { ...headers, "idempotency-key": key() } };
}

function checkCell(key: string): void {
  if (!key.startsWith("$fn/")) return;
  throw new FunctionError("FUNCTION_CELL_RESERVED", `cells under \`$fn/\` are those of durable functions: choose another key than \`${key}\``);
}

type Code = (ctx: Ctx<any>, input: any) => Promise<unknown>;

/** A durable function of a program. */
export class Durable {
  constructor(readonly code: Code) {}
}

/** Makes a durable function of `async` code. Its name in `program({…})` is the name of the event that starts it. */
export function durable<Effects = AnyEffects, Input = any, Output = unknown>(
  code: (ctx: Ctx<Effects>, input: Input) => Promise<Output>,
): Durable {
  if (typeof code !== "function") throw new TypeError("`durable` takes an async function");
  return new Durable(code as Code);
}
