// Durable functions of a world. An instance is named FUNCTION/KEY.
import { MundiError } from './errors.js';
import { Backoff, type Http } from './http.js';
import type { components } from './schema.js';

type Schemas = components['schemas'];

export type FunctionInstance = Schemas['FunctionInstance'];
export type FunctionDescription = Schemas['FunctionDescription'];
export type FunctionState = Schemas['FunctionState'];

export interface RunOptions {
  /** How long to wait for the result, all attempts together: 60 s unless it is given. The instance goes on afterwards. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

const ONE = '/v1/u/{universe}/worlds/{world}/functions/{instance}';
const TIMEOUT_MS = 60_000;
/** One request waits so long at most, so that a connection that is dead is noticed. */
const WAIT_MAX_MS = 20_000;

export class Functions {
  constructor(
    private readonly http: Http,
    private readonly world: string,
  ) {}

  private path(instance: string) {
    return { world: this.world, instance };
  }

  /**
   * Runs a function under a key and waits for its result: past timeouts, broken connections and restarts of the server. The same key with the
   * same input finds the instance again; with another input it is refused.
   */
  async run<T = unknown>(name: string, key: string, input: unknown = null, options: RunOptions = {}): Promise<T> {
    const until = Date.now() + (options.timeoutMs ?? TIMEOUT_MS);
    for (const backoff = new Backoff(); ; ) {
      const leftMs = Math.max(1, until - Date.now());
      const query = { timeout: `${Math.min(leftMs, WAIT_MAX_MS)}ms` };
      const asked = { path: this.path(`${name}/${key}`), query, body: input ?? null, signal: options.signal, repeatable: true, retryForMs: leftMs };
      try {
        return await this.http.json<T>(['POST', ONE], asked);
      } catch (error) {
        if (!(error instanceof MundiError) || error.code !== 'CALL_TIMEOUT' || Date.now() >= until) throw error;
      }
      await backoff.wait(0, options.signal);
    }
  }

  /** All instances: with `function`, `state` only some; with `at`, as they were before the record at this height. */
  list(query: { function?: string; state?: string; at?: number; limit?: number } = {}): AsyncGenerator<FunctionInstance> {
    return this.http.items(['GET', '/v1/u/{universe}/worlds/{world}/functions'], { path: { world: this.world }, query });
  }

  /** An instance with every await on record. */
  describe(instance: string, query: { at?: number } = {}): Promise<FunctionDescription> {
    return this.http.json(['GET', ONE], { path: this.path(instance), query });
  }

  /** Cancels an instance; its cleanup runs. One that has ended stays as it is. */
  cancel(instance: string, query: { reason?: string; timeout?: string } = {}): Promise<FunctionState> {
    return this.http.json(['DELETE', ONE], { path: this.path(instance), query, repeatable: true });
  }

  /** An instance that is paused keeps what comes in, and does not go on. */
  pause(instance: string): Promise<FunctionState> {
    return this.http.json(['PUT', ONE], { path: this.path(instance), query: { paused: true }, repeatable: true });
  }

  resume(instance: string): Promise<FunctionState> {
    return this.http.json(['PUT', ONE], { path: this.path(instance), query: { paused: false }, repeatable: true });
  }
}
