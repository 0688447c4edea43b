/**
 * A world for tests, without a server: events go in, and what follows is there to be looked at.
 *
 * It keeps to the rules that a program notices: a step that fails leaves nothing behind, labels name what is open,
 * receipts and timers come as steps of their own. The bounds of the kernel are not checked here.
 */

import { decode, encode } from "./cbor.ts";
import {
  type Cause,
  type Host,
  type HostSendOptions,
  type Level,
  type Origin,
  type Outgoing,
  type Program,
  type Status,
  World,
} from "./index.ts";

export interface Intent {
  kind: string;
  label: string;
  params: any;
}

export interface Timer {
  label: string;
  dueNs: bigint;
  payload: any;
}

/** What one step did. */
export class Step {
  /** The answer to the event itself. */
  reply: any = undefined;
  /** Answers to earlier events, by their places. */
  replies: Record<string, any> = {};
  intents: Intent[] = [];
  timers: Timer[] = [];
  /** The labels of effects and timers that were withdrawn. */
  cancelled: string[] = [];
  logs: string[] = [];
}

/** The order of a world's cells: by their bytes, which is by code points, and not that of JavaScript. */
function byBytes(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((letter, index) => letter !== right[index]);
  if (at < 0) return left.length - right.length;
  return right[at] === undefined ? 1 : left[at].codePointAt(0)! - right[at].codePointAt(0)!;
}

class TestHost implements Host {
  cells = new Map<string, Uint8Array>();
  open = new Map<string, Intent>();
  timers = new Map<string, Timer>();
  now = 1_000_000_000n;
  number = 0;
  drawn = 0;
  given: [string, string][] = [];
  step = new Step();

  copy(): TestHost {
    const copy = new TestHost();
    Object.assign(copy, this, {
      cells: new Map(this.cells),
      open: new Map(this.open),
      timers: new Map(this.timers),
      step: new Step(),
    });
    return copy;
  }

  worldId(): string {
    return "w_00000000000000000000000001";
  }

  height(): bigint {
    return BigInt(this.number);
  }

  nowNs(): bigint {
    return this.now;
  }

  get(key: string): Uint8Array | undefined {
    return this.cells.get(key);
  }

  scan(prefix: string, after: string | undefined, itemsMax: number): { key: string; value: Uint8Array }[] {
    const keys = [...this.cells.keys()].filter((key) => key.startsWith(prefix)).sort(byBytes);
    const chosen = keys.filter((key) => after === undefined || byBytes(key, after) > 0).slice(0, itemsMax);
    return chosen.map((key) => ({ key, value: this.cells.get(key)! }));
  }

  log(_: Level, text: string): void {
    this.step.logs.push(text);
  }

  headers(): [string, string][] {
    return this.given;
  }

  put(key: string, value: Uint8Array): void {
    this.cells.set(key, value);
  }

  delete(key: string): void {
    this.cells.delete(key);
  }

  emit(kind: string, params: Uint8Array, label: string): void {
    label ||= `${this.number}.${this.step.intents.length}`;
    if (this.open.has(label)) throw new Error(`the label \`${label}\` is in use`);
    const intent = { kind, label, params: decode(params) };
    this.step.intents.push(intent);
    this.open.set(label, intent);
  }

  cancel(label: string): boolean {
    const wasOpen = this.open.delete(label);
    if (wasOpen) this.step.cancelled.push(label);
    return wasOpen;
  }

  setTimer(label: string, dueNs: bigint, payload: Uint8Array): void {
    this.cancelTimer(label);
    const timer = { label, dueNs, payload: decode(payload) };
    this.step.timers.push(timer);
    this.timers.set(label, timer);
  }

  cancelTimer(label: string): boolean {
    const wasSet = this.timers.delete(label);
    if (wasSet) this.step.cancelled.push(label);
    return wasSet;
  }

  send(to: string, what: Outgoing, label: string): void {
    this.emit("fabric.send", encode({ to, what: what.tag }), label);
  }

  sendWith(to: string, what: Outgoing, options: HostSendOptions, label: string): void {
    const { universe = null, correlationId = null, headers, messageId = null } = options;
    const said = { universe, correlationId, headers: Object.fromEntries(headers), messageId };
    this.emit("fabric.send", encode({ to, what: what.tag, ...said }), label);
  }

  spawn(manifest: string, _: Outgoing | undefined, label: string): string {
    const child = "w_" + String(this.number * 1000 + this.step.intents.length).padStart(26, "0");
    this.emit("world.spawn", encode({ world: child, manifest }), label);
    return child;
  }

  reply(to: string, payload: Uint8Array): void {
    if (to in this.step.replies) throw new Error(`a second reply to ${to}`);
    this.step.replies[to] = decode(payload);
  }

  random(): bigint {
    this.drawn++;
    const mixed = BigInt.asUintN(64, ((BigInt(this.number) << 32n) | BigInt(this.drawn)) * 0x9e3779b97f4a7c15n);
    return BigInt.asUintN(64, (mixed ^ (mixed >> 29n)) * 0xbf58476d1ce4e5b9n);
  }
}

/** What a query sees: as a server would, it refuses whatever changes the world. */
function reading(host: TestHost): Host {
  const reads = ["worldId", "height", "nowNs", "get", "scan", "log", "headers"];
  return new Proxy(host.copy(), {
    get(target, name) {
      if (reads.includes(String(name))) return (target as any)[name].bind(target);
      throw new Error(`\`${String(name)}\` was called in a query, which changes nothing`);
    },
  });
}

/** A world of a program. */
export class TestWorld {
  private host = new TestHost();

  constructor(private program: Program<any>) {}

  /** Moves the world's clock forward. */
  advance(ns: bigint): void {
    this.host.now += ns;
  }

  /** An event, as a caller sends it. */
  send(schema: string, value: unknown = null): Step {
    return this.step({ is: "event", schema, value: decode(encode(value)) });
  }

  /** The answer to the open effect of this label. */
  receipt(label: string, status: Status, value: unknown = null): Step {
    const intent = this.host.open.get(label);
    if (!intent) throw new Error(`no effect is open under \`${label}\``);
    this.host.open.delete(label);
    return this.step({ is: "receipt", label, kind: intent.kind, status, payload: encode(value) });
  }

  /** The timer of this label fires; the clock is at least where it is due. */
  fire(label: string): Step {
    const timer = this.host.timers.get(label);
    if (!timer) throw new Error(`no timer is set under \`${label}\``);
    this.host.timers.delete(label);
    if (timer.dueNs > this.host.now) this.host.now = timer.dueNs;
    return this.step({ is: "timer", label, payload: timer.payload });
  }

  /** Any other cause; perhaps with what its sender said beside it. */
  step(cause: Cause, said: Partial<Origin> & { headers?: Record<string, string> } = {}): Step {
    const host = this.host;
    const { headers = {}, ...told } = said;
    host.given = Object.entries(headers);
    host.number++;
    host.drawn = 0;
    const before = host.copy();
    host.step = new Step();
    const seq = "s_" + host.number.toString(16).padStart(24, "0");
    try {
      const origin = { enqueuedAtNs: host.now, wantsReply: true, ...told };
      this.program.handle(new World<any>(host), { seq, origin, cause });
    } catch (error) {
      this.host = before;
      throw error;
    }
    const step = host.step;
    step.reply = step.replies[seq];
    delete step.replies[seq];
    return step;
  }

  query(name: string, params: unknown = null): any {
    if (!this.program.query) throw new Error(`this program answers no query \`${name}\``);
    return this.program.query(new World<any>(reading(this.host)), name, decode(encode(params)));
  }

  cell(key: string): any {
    const found = this.host.cells.get(key);
    return found && decode(found);
  }

  get cells(): string[] {
    return [...this.host.cells.keys()].sort(byBytes);
  }

  get open(): string[] {
    return [...this.host.open.keys()].sort();
  }

  get timers(): string[] {
    return [...this.host.timers.keys()].sort();
  }
}
