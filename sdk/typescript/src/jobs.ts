/**
 * When nothing more happens by itself: every job of every promise has run.
 *
 * A durable function is given its recorded results one at a time, and the next one only when the code has done all that follows from
 * the last. In a test the event loop of node says when that is. In a component nobody does: `component()` replaces `Promise` by one
 * whose jobs are in the queue below, and esbuild turns `async` functions into generators over it, so that a step stays one
 * synchronous call.
 */

let queue: (() => void)[] = [];
let waiting: (() => void)[] = [];
let owned = false;

/** Runs jobs until there are none, then lets one of those go on that wait for this, and so on. */
export function drain(): void {
  for (;;) {
    for (let at = 0; at < queue.length; at++) {
      const job = queue[at]!;
      if (at >= 1024) {
        queue = queue.slice(at + 1);
        at = -1;
      }
      job();
    }
    queue = [];
    const next = waiting.shift();
    if (next === undefined) return;
    next();
  }
}

/** Resolves when every other job has run. */
export function idle(): Promise<void> {
  if (owned) return new Promise((resolve) => void waiting.push(resolve as () => void));
  const later = (globalThis as any).setImmediate as ((run: () => void) => void) | undefined;
  if (later === undefined) throw new Error("durable functions run in a component, or in tests under node");
  return new Promise((resolve) => later(resolve as () => void));
}

type Settled = { state: "pending" } | { state: "fulfilled"; value: any } | { state: "rejected"; reason: any };
type Reaction = { fulfilled: (value: any) => void; rejected: (reason: any) => void };

/** A promise as the language describes it, whose jobs are in the queue above. */
export class QueuedPromise<T> {
  private settled: Settled = { state: "pending" };
  private reactions: Reaction[] = [];

  constructor(executor: (resolve: (value?: any) => void, reject: (reason?: any) => void) => void) {
    this.run(executor);
  }

  /** Calls with the two functions that settle this promise, of which only the first call counts. */
  private run(executor: (resolve: (value?: any) => void, reject: (reason?: any) => void) => void): void {
    let done = false;
    const once = (run: (given: any) => void) => (given: any) => {
      if (done) return;
      done = true;
      run(given);
    };
    const reject = once((reason) => this.settle({ state: "rejected", reason }));
    try {
      executor(once((value) => this.follow(value)), reject);
    } catch (error) {
      reject(error);
    }
  }

  /** Takes a value, or what a thenable becomes. */
  private follow(value: any): void {
    if (value === this) return this.settle({ state: "rejected", reason: new TypeError("a promise that waits for itself") });
    let then: unknown;
    try {
      const isObject = (typeof value === "object" && value !== null) || typeof value === "function";
      then = isObject ? value.then : undefined;
    } catch (reason) {
      return this.settle({ state: "rejected", reason });
    }
    if (typeof then !== "function") return this.settle({ state: "fulfilled", value });
    const call = then;
    queue.push(() => this.run((resolve, reject) => call.call(value, resolve, reject)));
  }

  private settle(settled: Settled): void {
    if (this.settled.state !== "pending") return;
    this.settled = settled;
    const reactions = this.reactions;
    this.reactions = [];
    for (const reaction of reactions) this.schedule(reaction);
  }

  private schedule({ fulfilled, rejected }: Reaction): void {
    const settled = this.settled;
    if (settled.state === "fulfilled") queue.push(() => fulfilled(settled.value));
    else if (settled.state === "rejected") queue.push(() => rejected(settled.reason));
  }

  then(fulfilled?: any, rejected?: any): QueuedPromise<any> {
    return new QueuedPromise((resolve, reject) => {
      const after = (run: any, otherwise: (given: any) => void) => (given: any) => {
        if (typeof run !== "function") return otherwise(given);
        try {
          resolve(run(given));
        } catch (error) {
          reject(error);
        }
      };
      const reaction = { fulfilled: after(fulfilled, resolve), rejected: after(rejected, reject) };
      if (this.settled.state === "pending") this.reactions.push(reaction);
      else this.schedule(reaction);
    });
  }

  catch(rejected?: any): QueuedPromise<any> {
    return this.then(undefined, rejected);
  }

  finally(run?: any): QueuedPromise<any> {
    if (typeof run !== "function") return this.then(run, run);
    return this.then(
      (value: any) => QueuedPromise.resolve(run()).then(() => value),
      (reason: any) =>
        QueuedPromise.resolve(run()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve(value?: any): QueuedPromise<any> {
    return value instanceof QueuedPromise ? value : new QueuedPromise((resolve) => resolve(value));
  }

  static reject(reason?: any): QueuedPromise<any> {
    return new QueuedPromise((_, reject) => reject(reason));
  }

  static withResolvers() {
    let resolve!: (value?: any) => void;
    let reject!: (reason?: any) => void;
    const promise = new QueuedPromise((...both) => ([resolve, reject] = both));
    return { promise, resolve, reject };
  }

  static all(items: Iterable<any>): QueuedPromise<any[]> {
    return QueuedPromise.gather(items, (value) => value);
  }

  static allSettled(items: Iterable<any>): QueuedPromise<any[]> {
    const failed = (reason: any) => ({ status: "rejected", reason });
    return QueuedPromise.gather(items, (value) => ({ status: "fulfilled", value }), failed);
  }

  private static gather(items: Iterable<any>, kept: (value: any) => any, failed?: (reason: any) => any): QueuedPromise<any[]> {
    return new QueuedPromise((resolve, reject) => {
      const values: any[] = [];
      let left = 1;
      const done = () => --left === 0 && resolve(values);
      let index = 0;
      for (const item of items) {
        const at = index++;
        left++;
        const keep = (how: (given: any) => any) => (given: any) => {
          values[at] = how(given);
          done();
        };
        QueuedPromise.resolve(item).then(keep(kept), failed ? keep(failed) : reject);
      }
      done();
    });
  }

  static race(items: Iterable<any>): QueuedPromise<any> {
    return new QueuedPromise((resolve, reject) => {
      for (const item of items) QueuedPromise.resolve(item).then(resolve, reject);
    });
  }

  static any(items: Iterable<any>): QueuedPromise<any> {
    return new QueuedPromise((resolve, reject) => {
      const errors: any[] = [];
      let left = 1;
      const done = () => --left === 0 && reject(Object.assign(new Error("every promise was rejected"), { errors }));
      let index = 0;
      for (const item of items) {
        const at = index++;
        left++;
        QueuedPromise.resolve(item).then(resolve, (error: any) => {
          errors[at] = error;
          done();
        });
      }
      done();
    });
  }
}

/** From now on `Promise` is the one above. Only a component does so, before the program is loaded. */
export function ownPromises(): void {
  owned = true;
  (globalThis as any).Promise = QueuedPromise;
}

/** What a promise became, once all jobs have run. */
export function outcomeNow<T>(given: T | PromiseLike<T>): T {
  if (!(given instanceof QueuedPromise)) return given as T;
  let settled: { value?: T; error?: unknown; ok: boolean } | undefined;
  given.then(
    (value: T) => (settled = { value, ok: true }),
    (error: unknown) => (settled = { error, ok: false }),
  );
  drain();
  if (settled === undefined) throw new Error("the step waits for something that never comes");
  if (!settled.ok) throw settled.error;
  return settled.value as T;
}
