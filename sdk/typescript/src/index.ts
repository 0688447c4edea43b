/**
 * Programs of Mundi in TypeScript.
 *
 * A program is a function of its events: what it reads and writes, asks for and answers goes through its World. The same
 * source is a component, when it is built, and runs in ordinary tests through `mundi-sdk/testing`, without a server.
 */

import { decode, encode } from "./cbor.ts";
import { type Budget, childSpec } from "./children.ts";
import type { WorldCall } from "./kinds.ts";
import type { Offer } from "./offer.ts";
import { type Lease, type Wish, leaseCommand, leaseWorld, shardWorld, wishCommand } from "./pools.ts";

export * as cbor from "./cbor.ts";
export * from "./children.ts";
export * from "./functions.ts";
export * from "./kinds.ts";
export * from "./pools.ts";

/** What reaches a program. The place is where a reply goes, now or in a later step. */
export interface Event {
  seq: string;
  origin: Origin;
  cause: Cause;
}

export interface Origin {
  enqueuedAtNs: bigint;
  correlationId?: string | undefined;
  trace?: string | undefined;
  wantsReply: boolean;
  sender?: { worldId: string; height: bigint } | undefined;
}

export type Cause =
  /** An event of the program's own vocabulary; its value satisfies the schema in mundi.json. */
  | { is: "event"; schema: string; value: any; key?: string | undefined }
  /** The one answer to an effect that was asked for under this label. */
  | { is: "receipt"; label: string; kind: string; status: Status; payload: Uint8Array }
  | { is: "message"; inbox: string; payload: Uint8Array; headers: [string, string][] }
  | { is: "timer"; label: string; payload: any }
  /** This program takes over from that of another manifest. If it fails here, it does not. */
  | { is: "upgraded"; from: string };

export type Status = "ok" | "error" | "timeout";
export type Level = "debug" | "info" | "warn" | "error";

/** What a host offers: the imports of a component, or a test. */
export interface Host {
  worldId(): string;
  height(): bigint;
  nowNs(): bigint;
  get(key: string): Uint8Array | undefined;
  scan(prefix: string, after: string | undefined, itemsMax: number): { key: string; value: Uint8Array }[];
  log(level: Level, text: string): void;
  headers(): [string, string][];
  put(key: string, value: Uint8Array): void;
  delete(key: string): void;
  emit(kind: string, params: Uint8Array, label: string): void;
  cancel(label: string): boolean;
  setTimer(label: string, dueNs: bigint, payload: Uint8Array): void;
  cancelTimer(label: string): boolean;
  send(to: string, what: Outgoing, label: string): void;
  sendWith(to: string, what: Outgoing, options: HostSendOptions, label: string): void;
  spawn(manifest: string, first: Outgoing | undefined, label: string): string;
  reply(to: string, payload: Uint8Array): void;
  random(): bigint;
}

/** What is sent to another world. */
export type Outgoing =
  | { tag: "event"; val: { schema: string; value: Uint8Array } }
  | { tag: "message"; val: { inbox: string; payload: Uint8Array; headers: [string, string][] } };

/** What may be said about something that is sent. */
export interface SendOptions {
  /** The universe of the world that it goes to: the sender's own if absent. Another one must accept messages from here. */
  universe?: string;
  /** Arrives as the event's `origin.correlationId`. */
  correlationId?: string;
  /** Arrive as the world's `headers`. */
  headers?: Record<string, string>;
  /** A hash (`h_…`) under which it is enqueued at most once, in place of the intent's; only where the manifest allows it. */
  messageId?: string;
}

/** The same, as a host takes it. */
export interface HostSendOptions {
  universe: string | undefined;
  correlationId: string | undefined;
  headers: [string, string][];
  messageId: string | undefined;
}

export function event(schema: string, value: unknown): Outgoing {
  return { tag: "event", val: { schema, value: encode(value) } };
}

/** Something for a named inbox of the other world. */
export function message(inbox: string, payload: Uint8Array, headers: Record<string, string> = {}): Outgoing {
  return { tag: "message", val: { inbox, payload, headers: Object.entries(headers) } };
}

/** A map from kinds of effects to their params and receipts; a project's own is made from its mundi.json. */
export type AnyEffects = Record<string, { params: any; receipt: any }>;

/**
 * All that a program can do. There is no other clock, randomness or I/O.
 *
 * A call that breaks a bound ends the step at once, and does not return.
 */
export class World<Effects = AnyEffects> {
  constructor(private host: Host) {}

  get id(): string {
    return this.host.worldId();
  }

  get height(): bigint {
    return this.host.height();
  }

  /** The world's clock, which never goes back. */
  get nowNs(): bigint {
    return this.host.nowNs();
  }

  /** The headers that came with the event or message that is being handled. */
  get headers(): Record<string, string> {
    return Object.fromEntries(this.host.headers());
  }

  /** What a cell holds. */
  get<T>(key: string): T | undefined {
    const found = this.host.get(key);
    return found === undefined ? undefined : (decode(found) as T);
  }

  getBytes(key: string): Uint8Array | undefined {
    return this.host.get(key);
  }

  /** Cells whose keys begin with the prefix and come after another key, in order. */
  scan<T>(prefix: string, after: string | undefined, itemsMax: number): [string, T][] {
    return this.host.scan(prefix, after, itemsMax).map(({ key, value }) => [key, decode(value) as T]);
  }

  /** All cells whose keys begin with the prefix, as bytes. */
  cellsUnder(prefix: string): { key: string; value: Uint8Array }[] {
    const found: { key: string; value: Uint8Array }[] = [];
    for (let after: string | undefined; ; after = found[found.length - 1]!.key) {
      const page = this.host.scan(prefix, after, 1000);
      if (page.length === 0) return found;
      found.push(...page);
    }
  }

  /** A line for people. It is no part of the outcome. */
  log(level: Level, text: string): void {
    this.host.log(level, text);
  }

  put(key: string, value: unknown): void {
    this.host.put(key, encode(value));
  }

  putBytes(key: string, value: Uint8Array): void {
    this.host.put(key, value);
  }

  delete(key: string): void {
    this.host.delete(key);
  }

  /** Asks for an effect. Its receipt comes back under the label, which names it while it is open. */
  emit<K extends keyof Effects & string>(
    kind: K,
    params: Effects[K] extends { params: infer P } ? P : never,
    label = "",
  ): void {
    this.host.emit(kind, encode(params), label);
  }

  /** Withdraws an open effect. Says whether there was one. */
  cancel(label: string): boolean {
    return this.host.cancel(label);
  }

  /** Sets a timer, in place of the one with the same label. One in the past is due at once. */
  setTimer(label: string, dueNs: bigint, payload: unknown = null): void {
    this.host.setTimer(label, dueNs, encode(payload));
  }

  /** The same, so many milliseconds from now. */
  setTimerInMs(label: string, inMs: number, payload: unknown = null): void {
    this.setTimer(label, this.nowNs + BigInt(inMs) * 1_000_000n, payload);
  }

  cancelTimer(label: string): boolean {
    return this.host.cancelTimer(label);
  }

  /** Sends to another world, by its id or its name. Whether it arrived comes back as a receipt under the label. */
  send(to: string, what: Outgoing, label = "", options?: SendOptions): void {
    if (options === undefined) return this.host.send(to, what, label);
    const { universe, correlationId, headers = {}, messageId } = options;
    this.host.sendWith(to, what, { universe, correlationId, headers: Object.entries(headers), messageId }, label);
  }

  /**
   * Calls another world, by its id or its name: what its program replies comes back as a receipt of `world.call` under the label.
   * What else can be said is that of `WorldCall`.
   */
  call(to: string, event: string, value: unknown, label = "", options: Omit<WorldCall, "world" | "event" | "value"> = {}): void {
    this.host.emit("world.call", encode({ world: to, event, value: value ?? null, ...options }), label);
  }

  /**
   * Reserves resources of a pool for so many slots, within which the lease must be activated. Of a pool of several shards, those of one:
   * that of the resources by `shardOf`, or any of them.
   */
  poolReserve(pool: string, wish: Wish, ttlSlots: number, label = "", shard = 0): void {
    this.call(shardWorld(pool, shard), "pool.command", { command: wishCommand(wish, ttlSlots) }, label);
  }

  /** Activates a lease that was reserved: from then on it ends only when it is released or revoked. */
  poolActivate(lease: Lease, label = ""): void {
    this.call(leaseWorld(lease), "pool.command", { command: leaseCommand("activate", lease) }, label);
  }

  /** Gives a lease back, reserved or active. */
  poolRelease(lease: Lease, label = ""): void {
    this.call(leaseWorld(lease), "pool.command", { command: leaseCommand("release", lease) }, label);
  }

  /**
   * Asks for a new world: of a manifest by its hash, or of a program by its name, `todo` for the newest version or `todo@2`. Its id is
   * known at once.
   */
  spawn(program: string, first?: Outgoing, label = ""): string {
    return this.host.spawn(program, first, label);
  }

  /** Asks for a child of a kind (`process`, `world`, `agent`, `external`) under a label, which names it while it runs. */
  spawnChild(kind: string, params: unknown, budget: Budget = {}, label = ""): void {
    this.host.emit("child.spawn", encode(childSpec(kind, params, budget)), label);
  }

  /**
   * Asks for the cancellation of the child that was spawned under this label. Whether it was in time comes back as a receipt of
   * `child.cancel`; how the child ended arrives as a `childEvent`.
   */
  cancelChild(child: string, label = ""): void {
    this.host.emit("child.cancel", encode({ label: child }), label);
  }

  /** Says that this world, which is a child, is done: its parent gets the result. Perhaps with what it used of `solver_calls` and `tokens`. */
  childDone(result: unknown, spent: Budget = {}, label = ""): void {
    const used = Object.keys(spent).length > 0 ? { spent } : {};
    this.host.emit("child.done", encode({ result: result ?? null, ...used }), label);
  }

  /** Says that this world, which is a child, has failed. */
  childFailed(reason: string, label = ""): void {
    this.host.emit("child.done", encode({ reason }), label);
  }

  /** Answers the call that arrived at this place of the inbox. */
  reply(to: string, value: unknown): void {
    this.host.reply(to, encode(value));
  }

  /** The next number, of 64 bits, of a sequence that the record determines. */
  random(): bigint {
    return this.host.random();
  }
}

/** The code of a world: what a project's `src/program.ts` exports by default. */
export interface Program<Effects = AnyEffects> {
  /** Takes one event. An exception throws away all that the step did; the world goes on. Only `program({…})` makes one that is awaited. */
  handle(world: World<Effects>, event: Event): void | Promise<void>;
  /** Answers a question about the world, and changes nothing. */
  query?(world: World<Effects>, name: string, params: any): unknown;
  /** Hears what mundi.json declares, before the first event. */
  describeTo?(offer: Offer): void;
  /** What the program declares: mundi.json, with the limits that durable functions need where it names none. */
  offered?(offer: Offer): Offer;
}
