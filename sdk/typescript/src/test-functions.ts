/** A world for tests of durable functions, with a clock that is moved by hand. */

import { decode, encode } from "./cbor.ts";
import { Cells, KIND, NAMED, STATE, type Failed, type State, headKey, milliseconds } from "./function-cells.ts";
import { type Cause, type Origin, type Program, World } from "./index.ts";
import { type Offer, Refused } from "./offer.ts";
import { type Step, finished } from "./test-host.ts";
import { TestWorld } from "./test-world.ts";

/** An instance of a durable function, as it is at the moment. */
export interface Instance {
  function: string;
  key: string;
  state: State;
  /** What it waits for: number, kind and name of each await. */
  waits: [number, string, string][];
  status: any;
  result: any;
  error: Failed | undefined;
  /** All that it asked for, in order: `effect payment.charge`, `timer sleep`. */
  asks: string[];
}

type Said = Partial<Origin> & { headers?: Record<string, string> };

/** A world of a program with durable functions. Its steps are awaited. */
export class DurableWorld extends TestWorld {
  /** The world as it was before each of its steps. */
  private past: DurableWorld[] = [];
  /** The process dies in this step, after the code has run and before anything is kept: it runs again. */
  private crashAt = -1;

  constructor(program: Program<any>, offer: Offer) {
    super(program, offer);
  }

  /** Starts an instance, and gives what has become of it so far. */
  async run(name: string, input: unknown = null, { key = "test" } = {}): Promise<Instance> {
    await this.arrive({ is: "event", schema: name, value: input, key });
    return this.instance(name, key);
  }

  /** An instance, by its function and its key. */
  instance(name: string, key = "test"): Instance {
    const head = this.cell(headKey(`${name}/${key}`));
    if (head === undefined) throw new Error(`there is no instance ${name}/${key}`);
    const { entries } = new Cells(new World<any>(this.host.copy())).log(head);
    const { function: named, state, waits, status, result, error } = head;
    const asks = entries.slice(1).map((entry) => `${entry[KIND]} ${entry[NAMED]}`);
    return { function: named, key, state, waits: waits.map((wait: any) => wait.slice(0, 3)), status, result, error, asks };
  }

  /** An event that starts no function; with a key, for the instance that has it. */
  event(schema: string, value: unknown = null, key?: string): Promise<Step> {
    return this.arrive({ is: "event", schema, value, key });
  }

  /** Answers the oldest open effect of a kind. */
  answer(kind: string, value: unknown = null): Promise<Step> {
    return this.taken(() => this.receiptCause(this.oldest(kind), "ok", value));
  }

  /** The oldest open effect of a kind is not carried out. */
  failEffect(kind: string, code: string, reason: string): Promise<Step> {
    return this.taken(() => this.receiptCause(this.oldest(kind), "error", { code, reason, attempts: 1 }));
  }

  private oldest(kind: string): string {
    for (const { label, kind: open } of this.host.open.values()) if (open === kind) return label;
    const others = [...this.host.open.values()].map((intent) => intent.kind).join(", ") || "none";
    throw new Refused("RECEIPT_UNKNOWN", `no effect of the kind \`${kind}\` is open; open are: ${others}`);
  }

  /** Moves the clock, and lets every timer fire that is due until then. */
  async skip(duration: number | string): Promise<void> {
    const until = this.host.now + BigInt(milliseconds(duration)) * 1_000_000n;
    for (;;) {
      const due = [...this.host.timers.values()].filter((timer) => timer.dueNs <= until);
      if (due.length === 0) break;
      due.sort((a, b) => (a.dueNs === b.dueNs ? (a.label < b.label ? -1 : 1) : a.dueNs < b.dueNs ? -1 : 1));
      await this.taken(() => this.timerCause(due[0]!.label));
    }
    this.host.now = until;
  }

  cancel(name: string, key = "test", reason = "it was cancelled"): Promise<Step> {
    return this.command({ cancel: `${name}/${key}`, reason });
  }

  pause(name: string, key = "test"): Promise<Step> {
    return this.command({ pause: `${name}/${key}` });
  }

  resume(name: string, key = "test"): Promise<Step> {
    return this.command({ resume: `${name}/${key}` });
  }

  /** An open await ends with this result, in place of what it waits for: what `mundi world fork --at-await … --with` does. */
  resolve(number: number, value: unknown, name: string, key = "test"): Promise<Step> {
    return this.command({ resolve: `${name}/${key}`, await: number, ok: value });
  }

  /** An open await fails with this error. */
  reject(number: number, error: { code: string; reason?: string }, name: string, key = "test"): Promise<Step> {
    return this.command({ resolve: `${name}/${key}`, await: number, error });
  }

  private command(command: object): Promise<Step> {
    return this.arrive({ is: "message", inbox: "$fn", payload: encode(command), headers: [] });
  }

  /** Another program takes over. Fails with `FUNCTION_DIVERGED` if an instance would go another way than is on record. */
  async upgrade(program: Program<any>): Promise<Step> {
    const before = this.program;
    this.program = program;
    program.describeTo?.(this.offer);
    try {
      return await this.arrive({ is: "upgraded", from: `h_${"0".repeat(64)}` });
    } catch (error) {
      this.program = before;
      throw error;
    }
  }

  /** A receipt or a timer, which is open in the world as it was before. */
  private async taken(cause: () => Cause): Promise<Step> {
    const past = this.fork();
    return this.arrive(cause(), {}, past);
  }

  /** Any other cause. */
  async arrive(cause: Cause, said: Said = {}, past = this.fork()): Promise<Step> {
    if (this.past.length === this.crashAt) {
      const lost = this.fork();
      lost.crashAt = -1;
      await lost.handled(cause, said).catch(() => undefined);
    }
    const step = await this.handled(cause, said);
    this.past.push(past);
    return step;
  }

  private async handled(cause: Cause, said: Said): Promise<Step> {
    const { event, before } = this.begin(cause, said);
    const host = this.host;
    try {
      await this.program.handle(new World<any>(host), event);
      if (host.fault) throw host.fault;
    } catch (error) {
      this.host = before;
      throw host.fault ?? error;
    }
    return finished(host, event.seq);
  }

  /** Another world that goes on from here. */
  fork(): DurableWorld {
    const fork = new DurableWorld(this.program, this.offer);
    fork.host = this.host.copy();
    fork.past = [...this.past];
    return fork;
  }

  /** A world in which the await has not ended yet: to try what would have happened with another result. */
  forkAtAwait(number: number, name: string, key = "test"): DurableWorld {
    const worlds = [...this.past, this];
    const at = worlds.findIndex((world) => world.hasEnded(number, `${name}/${key}`));
    if (at < 1) throw new Error(`await ${number} of ${name}/${key} has not ended`);
    return worlds[at - 1]!.fork();
  }

  private hasEnded(number: number, instance: string): boolean {
    const cells = new Cells(new World<any>(this.host.copy()));
    const head = cells.head(instance);
    const entry = head && cells.log(head).entries[number];
    return entry !== undefined && entry[STATE] !== "open";
  }

  /** How many steps there were. */
  get steps(): number {
    return this.past.length;
  }

  /** The process dies in the step with this number, once. */
  crash(step: number): void {
    this.crashAt = step;
  }

  /** All cells, as bytes: two worlds that went the same way have the same. */
  get bytes(): [string, Uint8Array][] {
    return this.cells.map((key) => [key, this.host.cells.get(key)!]);
  }
}

/**
 * Runs a scenario once as it is, and then once for each of its steps with a process that dies in that step. Every time the same must
 * come of it, byte for byte.
 */
export async function forEachCrash(make: () => DurableWorld, scenario: (world: DurableWorld) => Promise<void>): Promise<number> {
  const plain = make();
  await scenario(plain);
  const expected = encode(plain.bytes.map(([key, bytes]) => [key, bytes]));
  for (let step = 0; step < plain.steps; step++) {
    const world = make();
    world.crash(step);
    await scenario(world);
    const found = encode(world.bytes.map(([key, bytes]) => [key, bytes]));
    if (found.length !== expected.length || found.some((byte, at) => byte !== expected[at])) {
      throw new Error(`something else came of it after a crash in step ${step}: ${JSON.stringify(decode(found)).slice(0, 400)}`);
    }
  }
  return plain.steps;
}
