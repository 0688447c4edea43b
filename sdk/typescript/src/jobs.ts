/**
 * When nothing more happens by itself: every job of every promise has run.
 *
 * A durable function is given its recorded results one at a time, and the next one only when the code has done all that follows from
 * the last. In a test the event loop of node says when that is. In a component nobody does: `component()` replaces `Promise` by one
 * whose jobs are in the queue below, and esbuild turns `async` functions into generators over it, so that a step stays one
 * synchronous call.
 */

type Job = () => void;

let queue: Job[] = [];
/** The next job. */
let at = 0;
let owned = false;

export const isOwned = () => owned;

/** Runs jobs until there are none. A job may call it, too. */
export function runJobs(): void {
  while (at < queue.length) {
    const job = queue[at++]!;
    if (at >= 1024) {
      queue = queue.slice(at);
      at = 0;
    }
    job();
  }
  queue = [];
  at = 0;
}

/** Resolves when every other job has run. In tests only: a component runs its jobs by `runJobs`. */
export function idle(): Promise<void> {
  const later = (globalThis as any).setImmediate as ((run: () => void) => void) | undefined;
  if (later === undefined) throw new Error("durable functions run in a component, or in tests under node");
  return new Promise((resolve) => later(resolve as () => void));
}

/** In a test of a program, jobs go to node. */
function enqueue(job: Job): void {
  if (owned) queue.push(job);
  else queueMicrotask(job);
}

type Reaction = { fulfilled: (value: any) => void; rejected: (reason: any) => void };
const PENDING = 0;
const FULFILLED = 1;
const REJECTED = 2;

/**
 * A promise as the language describes it, whose jobs are in the queue above. The first values of its fields are those of its prototype,
 * because an interpreter takes longer to set them than for the rest of an await.
 */
export class QueuedPromise<T> {
  protected declare state: number;
  private declare outcome: any;
  private declare reactions: Reaction[] | undefined;
  /** Somebody has waited for it. */
  declare isAwaited: boolean;

  constructor(executor: ((resolve: (value?: any) => void, reject: (reason?: any) => void) => void) | undefined) {
    if (executor !== undefined) this.settleBy(executor);
  }

  static {
    Object.assign(QueuedPromise.prototype, { state: PENDING, outcome: undefined, reactions: undefined, isAwaited: false });
  }

  get isSettled(): boolean {
    return this.state !== PENDING;
  }

  /** Whether it has ended, or ends at once when it is asked so. */
  comesNext(): boolean {
    return this.state !== PENDING;
  }

  /** Calls with the two functions that settle this promise, of which only the first call counts. */
  private settleBy(executor: (resolve: (value?: any) => void, reject: (reason?: any) => void) => void): void {
    let done = false;
    const once = (run: (given: any) => void) => (given: any) => {
      if (done) return;
      done = true;
      run(given);
    };
    const reject = once((reason) => this.fail(reason));
    try {
      executor(once((value) => this.follow(value)), reject);
    } catch (error) {
      reject(error);
    }
  }

  /** Takes a value, or what a thenable becomes. */
  private follow(value: any): void {
    if (value === this) return this.fail(new TypeError("a promise that waits for itself"));
    let then: unknown;
    try {
      const isObject = (typeof value === "object" && value !== null) || typeof value === "function";
      then = isObject ? value.then : undefined;
    } catch (reason) {
      return this.fail(reason);
    }
    if (typeof then !== "function") return this.fulfil(value);
    const call = then;
    enqueue(() => this.settleBy((resolve, reject) => call.call(value, resolve, reject)));
  }

  fulfil(value: T): void {
    this.settleAs(FULFILLED, value);
  }

  fail(reason: unknown): void {
    this.settleAs(REJECTED, reason);
  }

  /** The same as `fulfil`, for one that is pending and that nobody waits for yet. */
  protected take(value: T): void {
    this.state = FULFILLED;
    this.outcome = value;
  }

  private settleAs(state: number, outcome: any): void {
    if (this.state !== PENDING) return;
    this.state = state;
    this.outcome = outcome;
    const reactions = this.reactions;
    if (reactions === undefined) return;
    this.reactions = undefined;
    for (const reaction of reactions) this.schedule(reaction);
  }

  private schedule(reaction: Reaction): void {
    const outcome = this.outcome;
    if (this.state === FULFILLED) enqueue(() => reaction.fulfilled(outcome));
    else enqueue(() => reaction.rejected(outcome));
  }

  /** Calls one of two functions, in a job, when it has ended. */
  private react(reaction: Reaction): void {
    this.isAwaited = true;
    if (this.state !== PENDING) this.schedule(reaction);
    else if (this.reactions === undefined) this.reactions = [reaction];
    else this.reactions.push(reaction);
  }

  then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const after = new QueuedPromise<any>((resolve, reject) => {
      const run = (how: any, otherwise: (given: any) => void) => (given: any) => {
        if (typeof how !== "function") return otherwise(given);
        try {
          resolve(how(given));
        } catch (error) {
          reject(error);
        }
      };
      this.react({ fulfilled: run(fulfilled, resolve), rejected: run(rejected, reject) });
    });
    return after as unknown as Promise<A | B>;
  }

  catch<B = never>(rejected?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, rejected);
  }

  finally(run?: any): Promise<T> {
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
        const place = index++;
        left++;
        const keep = (how: (given: any) => any) => (given: any) => {
          values[place] = how(given);
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
        const place = index++;
        left++;
        QueuedPromise.resolve(item).then(resolve, (error: any) => {
          errors[place] = error;
          done();
        });
      }
      done();
    });
  }

  /** Goes on with the code of an `async` function, as far as it comes. */
  static advance(task: Task, isError: boolean, given: any, isJob: boolean): void {
    const { steps, done } = task;
    try {
      let step = isError ? steps.throw!(given) : steps.next(given);
      while (!step.done) {
        const { value } = step;
        const waits: QueuedPromise<any> = value instanceof QueuedPromise ? value : QueuedPromise.resolve(value);
        // Nothing else could go on meanwhile: no caller is on the stack, no job waits, and nobody else waits for this. So what has
        // ended is taken here and now.
        const isAlone = isJob && at >= queue.length && waits.reactions === undefined;
        if (!isAlone || !waits.comesNext()) return waits.react(task.reaction);
        waits.isAwaited = true;
        step = waits.state === REJECTED ? steps.throw!(waits.outcome) : steps.next(waits.outcome);
      }
      done.follow(step.value);
    } catch (error) {
      done.fail(error);
    }
  }
}

/** An `async` function that runs. */
interface Task {
  steps: Iterator<any, any, any>;
  done: QueuedPromise<any>;
  reaction: Reaction;
}

/** What esbuild makes of `async` functions calls this instead of its own helper: `build.mjs` puts it there. */
(globalThis as any).mundiAsync = (self: unknown, given: any, code: (...given: any[]) => Iterator<any, any, any>): QueuedPromise<any> => {
  const task = { done: new QueuedPromise<any>(undefined) } as Task;
  task.reaction = {
    fulfilled: (value) => QueuedPromise.advance(task, false, value, true),
    rejected: (reason) => QueuedPromise.advance(task, true, reason, true),
  };
  task.steps = code.apply(self, given);
  QueuedPromise.advance(task, false, undefined, false);
  return task.done;
};

/** From now on jobs are in the queue above. */
export function ownJobs(): void {
  owned = true;
}

/** From now on `Promise` is the one above. Only a component does so, before the program is loaded. */
export function ownPromises(): void {
  ownJobs();
  (globalThis as any).Promise = QueuedPromise;
}

/** What a promise became, once all jobs have run. */
export function outcomeNow<T>(given: T | PromiseLike<T>): T {
  if (!(given instanceof QueuedPromise)) return given as T;
  runJobs();
  let settled: { value?: T; error?: unknown; ok: boolean } | undefined;
  given.then(
    (value: T) => (settled = { value, ok: true }),
    (error: unknown) => (settled = { error, ok: false }),
  );
  runJobs();
  if (settled === undefined) throw new Error("the step waits for something that never comes");
  if (!settled.ok) throw settled.error;
  return settled.value as T;
}
