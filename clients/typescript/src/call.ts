// A call that is made once, and whose reply is waited for past timeouts, broken connections and restarts of the server.
import { MundiError } from './errors.js';
import { Backoff, type Http, uniqueKey } from './http.js';

export interface CallOptions {
  /** How long to wait for the reply, all attempts together: 60 s unless it is given. At most 55 minutes: the server knows a key for an hour. */
  timeoutMs?: number;
  /** Under the same key the event is sent at most once. One of its own unless it is given. */
  idempotencyKey?: string;
  correlationId?: string;
  signal?: AbortSignal;
}

const TIMEOUT_MS = 60_000;
const TIMEOUT_MAX_MS = 55 * 60_000;
/** One request waits so long at most, so that a connection that is dead is noticed. */
const WAIT_MAX_MS = 20_000;

export async function call<T>(http: Http, world: string, event: string, value: unknown, options: CallOptions): Promise<T> {
  const until = Date.now() + Math.min(options.timeoutMs ?? TIMEOUT_MS, TIMEOUT_MAX_MS);
  const headers: Record<string, string> = { 'idempotency-key': options.idempotencyKey ?? uniqueKey() };
  if (options.correlationId) headers['correlation-id'] = options.correlationId;
  let name: string | undefined;
  for (const backoff = new Backoff(); ; ) {
    const leftMs = Math.max(1, until - Date.now());
    const query = { timeout: `${Math.min(leftMs, WAIT_MAX_MS)}ms` };
    const asked = { query, signal: options.signal, repeatable: true, retryForMs: leftMs };
    try {
      if (name !== undefined) return await reply<T>(http, world, name, asked);
      const made = { ...asked, path: { world, event }, body: value ?? null, headers };
      return await http.json<T>(['POST', '/v1/u/{universe}/worlds/{world}/call/{event}'], made);
    } catch (error) {
      if (!(error instanceof MundiError) || error.code !== 'CALL_TIMEOUT' || Date.now() >= until) throw error;
      name = error.problem?.call ?? name; // without a name it is sent again, under the same key
    }
    await backoff.wait(0, options.signal);
  }
}

/** The reply to a call that was made before, by its name. */
export function reply<T>(http: Http, world: string, call: string, asked: object): Promise<T> {
  return http.json<T>(['GET', '/v1/u/{universe}/worlds/{world}/calls/{call}'], { ...asked, path: { world, call } });
}
