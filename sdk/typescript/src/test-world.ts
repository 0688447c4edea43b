/** A world for tests of handlers. */

import { decode, encode } from "./cbor.ts";
import type { Budget } from "./children.ts";
import { type Cause, type Event, type Origin, type Program, type Status, World } from "./index.ts";
import { type WorldCall, wrongField } from "./kinds.ts";
import { Meter, type Offer, PAYLOAD_BYTES_MAX, Refused, Rules } from "./offer.ts";
import { Step, TestHost, byBytes, finished, reading } from "./test-host.ts";

/** What a program hears in place of a receipt that its schema refuses. */
const BAD_RECEIPT = new TextEncoder().encode("the payload does not satisfy the manifest's schema");

function checkSize(payload: Uint8Array): void {
  if (payload.length > PAYLOAD_BYTES_MAX) throw new Refused("ITEM_TOO_LARGE", `the payload has ${payload.length} bytes`);
}

/** A world of a program. One with durable functions is a `DurableWorld`. */
export class TestWorld {
  protected host: TestHost;

  /** The offer is the content of the program's mundi.json: `import offer from "../mundi.json"`. */
  constructor(
    protected program: Program<any>,
    protected offer: Offer,
  ) {
    this.host = new TestHost(new Rules(offer));
    program.describeTo?.(offer);
  }

  /** Moves the world's clock forward. */
  advance(ns: bigint): void {
    this.host.now += ns;
  }

  /** An event, as a caller sends it. */
  send(schema: string, value: unknown = null): Step {
    return this.step({ is: "event", schema, value });
  }

  /** The answer to the open effect of this label. */
  receipt(label: string, status: Status, value: unknown = null): Step {
    return this.step(this.receiptCause(label, status, value));
  }

  /** The receipt, as it enters; from then on the effect is closed. */
  protected receiptCause(label: string, status: Status, value: unknown): Cause {
    const host = this.host;
    const intent = host.open.get(label);
    if (!intent) {
      throw new Refused(host.closed.has(label) ? "RECEIPT_CLOSED" : "RECEIPT_UNKNOWN", `no effect is open under \`${label}\``);
    }
    let payload = encode(value);
    checkSize(payload);
    if (status === "ok") {
      const wrong = wrongField(intent.kind, decode(payload));
      if (wrong !== undefined) throw new Refused("RECEIPT_INVALID", `no \`${intent.kind}\` answers so: \`${wrong}\``);
      if (!host.rules.acceptsReceipt(intent.kind, payload)) [status, payload] = ["error", BAD_RECEIPT];
    }
    host.open.delete(label);
    host.closed.add(label);
    return { is: "receipt", label, kind: intent.kind, status, payload };
  }

  /** The open effect of this label is not carried out. */
  fail(label: string, code: string, reason: string): Step {
    return this.receipt(label, "error", { code, reason, attempts: 1 });
  }

  /**
   * Lets another world answer the open `world.call` of this label, in one step of each. A program that replies in a later step of its
   * own is answered for with `receipt`.
   */
  answerCall(label: string, other: TestWorld): Step {
    const intent = this.host.open.get(label);
    if (intent?.kind !== "world.call") throw new Refused("RECEIPT_UNKNOWN", `no call is open under \`${label}\``);
    const { event: schema, value, headers = {}, correlation_id: correlationId } = intent.params as WorldCall;
    const sender = { worldId: this.host.worldId(), height: BigInt(this.host.number) };
    let reply: unknown;
    try {
      reply = other.step({ is: "event", schema, value: value ?? null }, { sender, correlationId, headers }).reply;
    } catch (error) {
      const code = error instanceof Refused ? error.code : "PROGRAM_FAILED";
      const reason = (error as Error).message;
      if (code === "EVENT_INVALID") return this.fail(label, code, reason);
      const failed_at = other.host.number;
      return this.receipt(label, "error", { code: "CALL_FAILED", reason, attempts: 1, failed_code: code, failed_at });
    }
    if (reply === undefined) throw new Error(`the other world did not reply to \`${label}\` in this step`);
    return this.receipt(label, "ok", reply);
  }

  /** The child that was spawned under this label starts. */
  childStarted(label: string): Step {
    this.requireChild(label);
    const child_id = `c_${label}`;
    const headers: [string, string][] = Object.entries({ child_id, label });
    return this.step({ is: "message", inbox: "child.started", payload: encode({ child_id, dispatch_seq: 1 }), headers });
  }

  /** It passed, and used so much. */
  childPassed(label: string, result: unknown = null, spent: Budget = {}): Step {
    return this.childEnded(label, "ok", { outcome: "passed", result, spent });
  }

  /** It failed. */
  childFailed(label: string, code: string, reason: string): Step {
    return this.childEnded(label, "error", { outcome: "failed", code, reason, spent: {} });
  }

  /** It was cancelled. */
  childCancelled(label: string): Step {
    const why = { code: "URM_CHILD_CANCELLED", reason: "cancelled", cancel_request_id: "test" };
    return this.childEnded(label, "error", { outcome: "cancelled", ...why, spent: {} });
  }

  private childEnded(label: string, status: Status, fields: Record<string, unknown>): Step {
    this.requireChild(label);
    return this.receipt(label, status, { child_id: `c_${label}`, ...fields });
  }

  private requireChild(label: string): void {
    const kind = this.host.open.get(label)?.kind;
    if (kind !== "child.spawn") throw new Refused("RECEIPT_UNKNOWN", `no child runs under \`${label}\``);
  }

  /** The timer of this label fires; the clock is at least where it is due. */
  fire(label: string): Step {
    return this.step(this.timerCause(label));
  }

  protected timerCause(label: string): Cause {
    const timer = this.host.timers.get(label);
    if (!timer) throw new Refused("TIMER_UNKNOWN", `no timer is set under \`${label}\``);
    this.host.timers.delete(label);
    if (timer.dueNs > this.host.now) this.host.now = timer.dueNs;
    return { is: "timer", label, payload: timer.payload };
  }

  /** Any other cause; perhaps with what its sender said beside it. */
  step(cause: Cause, said: Partial<Origin> & { headers?: Record<string, string> } = {}): Step {
    const { event, before } = this.begin(cause, said);
    const host = this.host;
    try {
      if (this.program.handle(new World<any>(host), event) !== undefined) {
        throw new Error("this program has durable functions: use a DurableWorld, and await its steps");
      }
      if (host.fault) throw host.fault;
    } catch (error) {
      this.host = before;
      throw host.fault ?? error;
    }
    return finished(host, event.seq);
  }

  /** The next step begins: what the program gets, and the world as it was. */
  protected begin(cause: Cause, said: Partial<Origin> & { headers?: Record<string, string> }): { event: Event; before: TestHost } {
    const host = this.host;
    if (cause.is === "event") {
      const value = encode(cause.value);
      checkSize(value);
      host.rules.checkEvent(cause.schema, value);
      cause = { ...cause, value: decode(value) };
    }
    const { headers = {}, ...told } = said;
    host.number++;
    const before = host.copy();
    Object.assign(host, { given: Object.entries(headers), drawn: 0, emitted: 0, step: new Step(), meter: new Meter(host.rules.limits) });
    const seq = "s_" + host.number.toString(16).padStart(24, "0");
    return { event: { seq, origin: { enqueuedAtNs: host.now, wantsReply: true, ...told }, cause }, before };
  }

  query(name: string, params: unknown = null): any {
    const encoded = encode(params);
    this.host.rules.checkQuery(name, encoded);
    if (!this.program.query) throw new Error(`this program answers no query \`${name}\``);
    const host = reading(this.host);
    try {
      const answer = this.program.query(new World<any>(host), name, decode(encoded));
      if (host.fault) throw host.fault;
      return decode(encode(answer ?? null));
    } catch (error) {
      throw host.fault ?? error;
    }
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
