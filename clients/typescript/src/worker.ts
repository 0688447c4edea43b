// A worker that carries out effects: claims them, keeps the claims by heartbeats, and answers or fails them.
import { FinalError, MundiError, RetryError } from './errors.js';
import { Backoff, type Http, pause } from './http.js';
import type { components } from './schema.js';

export type Task = Omit<components['schemas']['Task'], 'params'> & { params: any };

/** Returns the result of an effect. Throws `FinalError` if another attempt is useless; any other error is one more attempt. */
export type Handler = (task: Task, context: { signal: AbortSignal }) => unknown;

export interface WorkerOptions {
  /** How many effects it carries out at a time: 1 unless it is given. */
  concurrency?: number;
  /** How long a claim is valid without a heartbeat; heartbeats come three times as often. 30 s unless it is given. */
  ttlMs?: number;
  /** The longest that one request waits for work, and so the longest that a stop waits for it. 5 s unless it is given. */
  waitMs?: number;
  /** Errors of these classes are final, as `FinalError` is. */
  finalErrors?: ReadonlyArray<abstract new (...given: never[]) => Error>;
  /** Stands in the receipts. */
  adapter?: string;
  /** What could not be told to the server, or to a handler: a lost claim, a server that is away. Printed unless it is given. */
  onError?: (error: unknown, task?: Task) => void;
}

const REASON_CHARACTERS_MAX = 500;

interface Running {
  task: Task;
  control: AbortController;
  done: Promise<void>;
}

export class Worker {
  private readonly running = new Map<string, Running>();
  private readonly stopping = new AbortController();
  private readonly concurrency: number;
  private readonly ttlMs: number;

  constructor(
    private readonly http: Http,
    private readonly handlers: Record<string, Handler>,
    private readonly options: WorkerOptions = {},
  ) {
    this.concurrency = options.concurrency ?? 1;
    this.ttlMs = options.ttlMs ?? 30_000;
    if (Object.keys(handlers).length === 0) throw new TypeError('a worker needs a handler');
    if (!(this.concurrency >= 1)) throw new TypeError('`concurrency` is at least 1');
  }

  /** Works until `stop`. Rejects if the server refuses to give work: a token that may not `work`, say. */
  async run(): Promise<void> {
    const over = new AbortController();
    const beating = this.beat(over.signal);
    try {
      for (const backoff = new Backoff(); !this.stopping.signal.aborted; ) {
        try {
          for (const task of await this.claim()) this.begin(task);
          backoff.reset();
        } catch (error) {
          if (!(error instanceof MundiError) || !error.isTransient) throw error;
          this.report(error);
          await backoff.wait(0, this.stopping.signal).catch(() => undefined);
        }
        if (this.running.size >= this.concurrency) await Promise.race([...this.running.values()].map((it) => it.done));
      }
    } finally {
      await Promise.all([...this.running.values()].map((it) => it.done));
      over.abort();
      await beating;
    }
  }

  /** Takes no more work. `run` returns when everything that was begun is answered. */
  stop(): void {
    this.stopping.abort();
  }

  private claim(): Promise<Task[]> {
    const limit = this.concurrency - this.running.size;
    const body = { kinds: Object.keys(this.handlers), limit: Math.min(limit, 256), ttl: `${this.ttlMs}ms`, wait: `${this.options.waitMs ?? 5_000}ms` };
    return this.http.json(['POST', '/v1/u/{universe}/tasks/claim'], { body });
  }

  private begin(task: Task): void {
    const control = new AbortController();
    const done = this.carryOut(task, control.signal)
      .catch((error: unknown) => this.report(error, task))
      .finally(() => this.running.delete(task.claim));
    this.running.set(task.claim, { task, control, done });
  }

  private async carryOut(task: Task, signal: AbortSignal): Promise<void> {
    let result: unknown;
    try {
      result = await this.handlers[task.kind]!(task, { signal });
    } catch (error) {
      if (!signal.aborted) await this.fail(task, error);
      return;
    }
    if (signal.aborted) return; // nobody waits for it any more
    const body = { claim: task.claim, result: result ?? null, adapter: this.options.adapter };
    await this.answer('/v1/u/{universe}/tasks/complete', body);
  }

  private async fail(task: Task, error: unknown): Promise<void> {
    const final = error instanceof FinalError || (this.options.finalErrors ?? []).some((it) => error instanceof it);
    const reason = (error instanceof Error ? error.message || error.name : String(error)).slice(0, REASON_CHARACTERS_MAX);
    const retry_after_ms = error instanceof RetryError ? error.afterMs : undefined;
    await this.answer('/v1/u/{universe}/tasks/fail', { claim: task.claim, reason, retryable: !final, retry_after_ms, adapter: this.options.adapter });
  }

  /** Repeated as long as the claim may be held. */
  private answer(path: '/v1/u/{universe}/tasks/complete' | '/v1/u/{universe}/tasks/fail', body: object): Promise<void> {
    return this.http.json(['POST', path], { body, repeatable: true, retryForMs: Math.max(this.ttlMs, this.http.retryForMs) });
  }

  private async beat(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      await pause(this.ttlMs / 3, over).catch(() => undefined);
      const claims = [...this.running.keys()];
      if (over.aborted || claims.length === 0) continue;
      try {
        const body = { claims, ttl: `${this.ttlMs}ms` };
        const kept: components['schemas']['KeptClaims'] = await this.http.json(['POST', '/v1/u/{universe}/tasks/heartbeat'], { body, repeatable: true, retryForMs: this.ttlMs / 3, signal: over });
        for (const claim of kept.lost) this.running.get(claim)?.control.abort(new Error('the claim was lost: another worker has the effect'));
        for (const claim of kept.withdrawn) this.running.get(claim)?.control.abort(new Error('the world withdrew the effect'));
      } catch (error) {
        if (!over.aborted) this.report(error);
      }
    }
  }

  private report(error: unknown, task?: Task): void {
    if (this.options.onError) this.options.onError(error, task);
    else console.error(task ? `${task.kind} ${task.intent}:` : 'worker:', error);
  }
}
