/** The host of a test world: what a server keeps of a world, and what it refuses. */

import { decode, encode } from "./cbor.ts";
import type { Host, HostSendOptions, Level, Outgoing } from "./index.ts";
import {
  CELL_KEY_BYTES_MAX,
  CELL_VALUE_BYTES_MAX,
  Meter,
  Refused,
  type Rules,
  SCAN_BYTES_MAX,
  SCAN_ITEMS_MAX,
  STEP_LOGS_MAX,
  byteLength,
  checkChild,
  checkHeaders,
  checkId,
  checkName,
  checkPayload,
  checkProgram,
  checkWorld,
} from "./offer.ts";

export interface Intent {
  kind: string;
  label: string;
  params: any;
}

/** Something that was sent to another world: an event with its schema, or a message with its inbox. */
export interface Sending {
  label: string;
  /** The destination: an id or a name. */
  to: string;
  schema?: string;
  inbox?: string;
  /** The value of an event, or the payload of a message. */
  value: any;
  headers: Record<string, string>;
  universe?: string;
  correlationId?: string;
  messageId?: string;
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
  /** What was sent to other worlds; each is also among the intents. */
  sent: Sending[] = [];
  timers: Timer[] = [];
  /** The labels of effects and timers that were withdrawn. */
  cancelled: string[] = [];
  logs: string[] = [];
}

/** The order of a world's cells: by their bytes, which is by code points, and not that of JavaScript. */
export function byBytes(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((letter, index) => letter !== right[index]);
  if (at < 0) return left.length - right.length;
  return right[at] === undefined ? 1 : left[at].codePointAt(0)! - right[at].codePointAt(0)!;
}

/** The program may go on without what it asked for. */
function full(what: string): Error {
  const error = new Error(`the world has as many ${what} as it may have`);
  error.name = "Full";
  return error;
}

export class TestHost implements Host {
  cells = new Map<string, Uint8Array>();
  open = new Map<string, Intent>();
  timers = new Map<string, Timer>();
  /** Labels of effects that were answered or withdrawn. */
  closed = new Set<string>();
  now = 1_000_000_000n;
  number = 0;
  drawn = 0;
  emitted = 0;
  given: [string, string][] = [];
  step = new Step();
  meter: Meter;
  /** What ended the step. A program may catch the exception, and the step is over all the same. */
  fault: Refused | undefined;

  constructor(readonly rules: Rules) {
    this.meter = new Meter(rules.limits);
  }

  copy(): TestHost {
    const copy = new TestHost(this.rules);
    Object.assign(copy, this, {
      cells: new Map(this.cells),
      open: new Map(this.open),
      timers: new Map(this.timers),
      closed: new Set(this.closed),
      step: new Step(),
      meter: new Meter(this.rules.limits),
      fault: undefined,
    });
    return copy;
  }

  /** Runs a call, unless the step is over; one that is refused ends it. */
  private call<T>(run: () => T): T {
    if (this.fault) throw this.fault;
    try {
      return run();
    } catch (error) {
      if (error instanceof Refused) this.fault = error;
      throw error;
    }
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
    return this.call(() => {
      this.meter.call(byteLength(key));
      const found = this.cells.get(key);
      this.meter.move(found?.length ?? 0);
      return found;
    });
  }

  scan(prefix: string, after: string | undefined, itemsMax: number): { key: string; value: Uint8Array }[] {
    return this.call(() => {
      this.meter.scan(byteLength(prefix));
      const keys = [...this.cells.keys()].filter((key) => key.startsWith(prefix)).sort(byBytes);
      const chosen = keys.filter((key) => after === undefined || byBytes(key, after) > 0);
      const found: { key: string; value: Uint8Array }[] = [];
      let bytes = 0;
      for (const key of chosen.slice(0, Math.min(itemsMax, SCAN_ITEMS_MAX))) {
        const value = this.cells.get(key)!;
        const size = byteLength(key) + value.length;
        if (found.length > 0 && bytes + size > SCAN_BYTES_MAX) break;
        bytes += size;
        found.push({ key, value });
      }
      this.meter.charge(found.length);
      this.meter.move(bytes);
      return found;
    });
  }

  log(_: Level, text: string): void {
    this.call(() => {
      this.meter.charge(1);
      if (this.step.logs.length < STEP_LOGS_MAX) this.step.logs.push(text);
    });
  }

  headers(): [string, string][] {
    return this.call(() => {
      this.meter.charge(1);
      return this.given;
    });
  }

  put(key: string, value: Uint8Array): void {
    this.call(() => {
      const bytes = byteLength(key);
      this.meter.call(bytes + value.length);
      if (bytes === 0 || bytes > CELL_KEY_BYTES_MAX) {
        throw new Refused("OUTPUT_REFUSED", `the key of a cell has ${bytes} bytes`);
      }
      if (value.length > CELL_VALUE_BYTES_MAX) {
        throw new Refused("OUTPUT_REFUSED", `the cell \`${key}\` would have ${value.length} bytes`);
      }
      this.cells.set(key, value);
    });
  }

  delete(key: string): void {
    this.call(() => {
      this.meter.call(byteLength(key));
      this.meter.deleted++;
      this.cells.delete(key);
    });
  }

  emit(kind: string, params: Uint8Array, label: string): void {
    this.call(() => {
      this.meter.call(byteLength(kind) + params.length + byteLength(label));
      if (["timer.set", "fabric.send", "world.spawn"].includes(kind)) {
        throw new Refused("OUTPUT_REFUSED", `the effect kind \`${kind}\` has a call of its own`);
      }
      checkName("effect kind", kind);
      checkPayload(params);
      this.rules.checkEffect(kind, params);
      this.openEffect(kind, params, label);
    });
  }

  /** An effect of any kind but a timer. */
  private openEffect(kind: string, params: Uint8Array, label: string): string {
    checkPayload(params);
    checkChild(kind, params);
    label ||= `${this.number}.${this.emitted}`;
    checkName("label", label);
    if (this.open.has(label)) throw new Refused("OUTPUT_REFUSED", `the label \`${label}\` is in use`);
    if (this.open.size >= this.rules.limits["open_intents_max"]!) throw full("open intents");
    this.meter.output(params.length, byteLength(kind) + byteLength(label));
    this.emitted++;
    const intent = { kind, label, params: decode(params) };
    this.step.intents.push(intent);
    this.open.set(label, intent);
    return label;
  }

  cancel(label: string): boolean {
    return this.call(() => {
      this.meter.call(byteLength(label));
      const wasOpen = this.open.delete(label);
      if (wasOpen) {
        this.meter.output(0, 0);
        this.closed.add(label);
        this.step.cancelled.push(label);
      }
      return wasOpen;
    });
  }

  setTimer(label: string, dueNs: bigint, payload: Uint8Array): void {
    this.call(() => {
      this.meter.call(byteLength(label) + payload.length);
      checkName("label", label);
      checkPayload(payload);
      this.withdrawTimer(label);
      if (this.timers.size >= this.rules.limits["timers_max"]!) throw full("timers");
      this.meter.output(payload.length, byteLength(label));
      this.emitted++;
      const timer = { label, dueNs, payload: decode(payload) };
      this.step.timers.push(timer);
      this.timers.set(label, timer);
    });
  }

  private withdrawTimer(label: string): boolean {
    const wasSet = this.timers.delete(label);
    if (wasSet) {
      this.meter.output(0, 0);
      this.step.cancelled.push(label);
    }
    return wasSet;
  }

  cancelTimer(label: string): boolean {
    return this.call(() => {
      this.meter.call(byteLength(label));
      return this.withdrawTimer(label);
    });
  }

  private requireDeclared(kind: string): void {
    if (!this.rules.declares(kind)) throw new Refused("OUTPUT_REFUSED", `mundi.json does not declare the effect \`${kind}\``);
  }

  send(to: string, what: Outgoing, label: string): void {
    this.sendWith(to, what, { universe: undefined, correlationId: undefined, headers: [], messageId: undefined }, label);
  }

  sendWith(to: string, what: Outgoing, options: HostSendOptions, label: string): void {
    this.call(() => {
      const { universe, correlationId, messageId } = options;
      checkWorld(to);
      if (universe !== undefined) checkId("universe", universe);
      if (messageId !== undefined) checkId("hash", messageId);
      const params = encode(messageParams(to, undefined, what, options));
      this.meter.call(params.length + byteLength(label));
      this.requireDeclared("fabric.send");
      if (correlationId !== undefined) checkName("correlation id", correlationId);
      checkHeaders(options.headers);
      if (messageId !== undefined && !this.rules.choosesMessageIds) {
        throw new Refused("OUTPUT_REFUSED", "mundi.json does not allow the program to choose message ids");
      }
      const opened = this.openEffect("fabric.send", params, label);
      const said = Object.fromEntries(Object.entries({ universe, correlationId, messageId }).filter(([, text]) => text !== undefined));
      const headers = Object.fromEntries([...(what.tag === "message" ? what.val.headers : []), ...options.headers]);
      const sent = what.tag === "event"
        ? { schema: what.val.schema, value: decode(what.val.value) }
        : { inbox: what.val.inbox, value: what.val.payload };
      this.step.sent.push({ label: opened, to, ...sent, headers, ...said });
    });
  }

  spawn(manifest: string, first: Outgoing | undefined, label: string): string {
    return this.call(() => {
      checkProgram(manifest);
      const child = "w_" + String(this.number * 1000 + this.emitted).padStart(26, "0");
      const nothing = { universe: undefined, correlationId: undefined, headers: [], messageId: undefined };
      const params = encode(messageParams(child, manifest, first, nothing));
      this.meter.call(params.length + byteLength(label));
      this.requireDeclared("world.spawn");
      this.openEffect("world.spawn", params, label);
      return child;
    });
  }

  reply(to: string, payload: Uint8Array): void {
    this.call(() => {
      checkId("inbox sequence", to);
      this.meter.call(payload.length);
      checkPayload(payload);
      if (to in this.step.replies) throw new Refused("OUTPUT_REFUSED", `a second reply to ${to}`);
      this.meter.output(payload.length, 0);
      this.step.replies[to] = decode(payload);
    });
  }

  random(): bigint {
    return this.call(() => {
      this.meter.call(8);
      this.drawn++;
      const mixed = BigInt.asUintN(64, ((BigInt(this.number) << 32n) | BigInt(this.drawn)) * 0x9e3779b97f4a7c15n);
      return BigInt.asUintN(64, (mixed ^ (mixed >> 29n)) * 0xbf58476d1ce4e5b9n);
    });
  }
}

/** The params of a message, as the server makes them. What is undefined is not written. */
function messageParams(to: string, manifest: string | undefined, what: Outgoing | undefined, options: HostSendOptions) {
  const { universe: dest_universe, correlationId: correlation_id, messageId: message_id } = options;
  const said = { dest_world: to, manifest, dest_universe, correlation_id, message_id };
  if (what === undefined) return said;
  if (what.tag === "event") {
    const headers = options.headers.length > 0 ? Object.fromEntries(options.headers) : undefined;
    return { ...said, headers, mode: "typed_event", schema: what.val.schema, value_cbor: what.val.value };
  }
  const { inbox, payload, headers } = what.val;
  return { ...said, mode: "inbox", inbox, payload_cbor: payload, headers: Object.fromEntries([...headers, ...options.headers]) };
}

/** What a query sees: as a server would, it refuses whatever changes the world. */
export function reading(host: TestHost): TestHost {
  const changes = ["put", "delete", "emit", "cancel", "setTimer", "cancelTimer", "send", "sendWith", "spawn", "reply", "random"];
  const copy = host.copy();
  for (const name of changes) {
    (copy as any)[name] = () => {
      copy.fault ??= new Refused("PROGRAM_TRAPPED", `\`${name}\` was called in a query, which changes nothing`);
      throw copy.fault;
    };
  }
  return copy;
}

/** What a step did, once it is over. */
export function finished(host: TestHost, seq: string): Step {
  const step = host.step;
  step.reply = step.replies[seq];
  delete step.replies[seq];
  return step;
}
