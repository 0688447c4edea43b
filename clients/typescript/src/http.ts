// Requests: addresses, the token, refusals as exceptions, retries of what may be repeated.
import { MundiError, refusal, UnreachableError } from './errors.js';
import type { paths } from './schema.js';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<Lowercase<M>, { responses: unknown }> ? P : never }[keyof paths];
/** An operation of the API: the document has it, or this does not compile. */
export type Operation = { [M in Method]: [M, PathsWith<M>] }[Method];

export interface Asked {
  path?: Record<string, string | number>;
  query?: object;
  body?: unknown;
  /** Sent as it is, in place of JSON. A stream is sent once only. */
  bytes?: Blob | Uint8Array | ReadableStream<Uint8Array>;
  headers?: Record<string, string>;
  /** Whether it may be sent again: it changes nothing, or it is done once however often it is sent. */
  repeatable?: boolean;
  signal?: AbortSignal;
  /** How long it is repeated. */
  retryForMs?: number;
}

export interface Options {
  /** The address of the server: `http://127.0.0.1:7600` unless it is given. */
  url?: string;
  /** A token, if the server requires one. */
  token?: string;
  /** The name or the id of a universe: `default` unless it is given. */
  universe?: string;
  /** How long a request that may be repeated is repeated while the server is away or busy: 30 s. */
  retryForMs?: number;
  /**
   * Sends calls and events to the process of a fleet that holds their world, once an answer has named it (`mundi-holder`). The token goes there, too.
   * An address that cannot be reached is forgotten, and the request goes to `url`.
   */
  followHolders?: boolean;
  fetch?: typeof fetch;
}

const FIRST_PAUSE_MS = 50;
const PAUSE_MAX_MS = 2_000;

/** Worlds whose holder is remembered. When there are more, all are forgotten and learnt again. */
const HOLDERS_MAX = 10_000;

/** Operations that the holder of a world answers itself. */
const HELD: string[] = ['/v1/u/{universe}/worlds/{world}/call/{event}', '/v1/u/{universe}/worlds/{world}/send/{event}'];

// The key of a cell and the name of an instance may have slashes.
const SLASHED = ['key', 'instance'];

/** The address of an operation. Parameters that are undefined are left out. */
export function address(template: string, asked: Asked): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(asked.path?.[name] ?? '');
    return SLASHED.includes(name) ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked.query ?? {})) {
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return query.size ? `${path}?${query}` : path;
}

/** Ends early, with the signal's reason, when the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((wake, end) => {
    if (signal?.aborted) return end(signal.reason);
    const ended = () => {
      clearTimeout(timer);
      end(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', ended);
      wake();
    }, ms);
    signal?.addEventListener('abort', ended, { once: true });
  });
}

/** Pauses that double, with a random part, so that clients of a server that comes back do not arrive at once. */
export class Backoff {
  private nextMs = FIRST_PAUSE_MS;

  wait(atLeastMs = 0, signal?: AbortSignal): Promise<void> {
    const ms = Math.max(atLeastMs, this.nextMs * (0.5 + Math.random() / 2));
    this.nextMs = Math.min(this.nextMs * 2, PAUSE_MAX_MS);
    return pause(ms, signal);
  }

  reset(): void {
    this.nextMs = FIRST_PAUSE_MS;
  }
}

/** A key that no other request has. Not `randomUUID`, which browsers offer to secure pages only. */
export function uniqueKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export class Http {
  readonly url: string;
  readonly universe: string;
  readonly retryForMs: number;
  /** The address of the process that holds a world. */
  private readonly holders = new Map<string, string>();

  constructor(readonly options: Options = {}) {
    this.url = (options.url ?? 'http://127.0.0.1:7600').replace(/\/+$/, '');
    this.universe = options.universe ?? 'default';
    this.retryForMs = options.retryForMs ?? 30_000;
  }

  /** The answer of the server, as `read` takes it; refusals are exceptions. */
  async send<T>(operation: Operation, asked: Asked, read: (response: Response) => T | Promise<T>): Promise<T> {
    const repeatable = (asked.repeatable ?? operation[0] === 'GET') && !(asked.bytes instanceof ReadableStream);
    const until = Date.now() + (asked.retryForMs ?? this.retryForMs);
    for (const backoff = new Backoff(); ; ) {
      let error: MundiError;
      let afterMs = 0;
      try {
        const response = await this.once(operation, asked);
        if (response.ok) return await this.reading(response, read, asked.signal);
        afterMs = Number(response.headers.get('retry-after') ?? 0) * 1_000;
        error = await refusal(response);
      } catch (thrown) {
        if (!(thrown instanceof UnreachableError)) throw thrown;
        error = thrown;
      }
      // Whether a call that timed out is asked for again, and how, is up to the call.
      const again = repeatable && error.isTransient && error.code !== 'CALL_TIMEOUT';
      if (!again || Date.now() + afterMs >= until) throw error;
      await backoff.wait(afterMs, asked.signal);
    }
  }

  /** The same, as JSON; undefined for an empty answer. */
  json<T>(operation: Operation, asked: Asked = {}): Promise<T> {
    return this.send(operation, asked, async (response) => {
      const text = await response.text();
      return (text ? JSON.parse(text) : undefined) as T;
    });
  }

  /** The connection may break while the body of an answer arrives. */
  private async reading<T>(response: Response, read: (response: Response) => T | Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await read(response);
    } catch (error) {
      if (signal?.aborted || error instanceof SyntaxError) throw error;
      throw new UnreachableError(this.url, error);
    }
  }

  private async once([method, template]: Operation, asked: Asked): Promise<Response> {
    const headers: Record<string, string> = { ...asked.headers };
    if (this.options.token) headers['authorization'] = `Bearer ${this.options.token}`;
    let body: BodyInit | undefined;
    if (asked.bytes !== undefined) {
      headers['content-type'] = 'application/octet-stream';
      body = asked.bytes as BodyInit;
    } else if (asked.body !== undefined) {
      headers['content-type'] = 'application/json';
      body = JSON.stringify(asked.body);
    }
    const world = this.options.followHolders && HELD.includes(template) ? String(asked.path?.['world']) : undefined;
    const base = (world !== undefined ? this.holders.get(world) : undefined) ?? this.url;
    const url = base + address(template, { ...asked, path: { universe: this.universe, ...asked.path } });
    const streamed = asked.bytes instanceof ReadableStream ? { duplex: 'half' } : {};
    try {
      const response = await (this.options.fetch ?? fetch)(url, { method, headers, body, signal: asked.signal, cache: 'no-store', ...streamed } as RequestInit);
      // Of a refusal by another address than the server's own it may be that another service has the address now.
      if (world !== undefined && base !== this.url && !response.ok) this.holders.delete(world);
      if (world !== undefined) this.learn(world, response.headers.get('mundi-holder'));
      return response;
    } catch (error) {
      if (asked.signal?.aborted) throw error;
      if (world !== undefined) this.holders.delete(world);
      throw new UnreachableError(base, (error as Error).cause ?? error);
    }
  }

  /** A token that was sent encrypted is not sent in the clear. */
  private learn(world: string, holder: string | null): void {
    if (!holder?.startsWith('https://') && !(holder?.startsWith('http://') && this.url.startsWith('http://'))) return;
    if (this.holders.size >= HOLDERS_MAX) this.holders.clear();
    this.holders.set(world, holder.replace(/\/+$/, ''));
  }

  /** Every item of a list that comes in pages. */
  async *items<T>(operation: Operation, asked: Asked = {}): AsyncGenerator<T> {
    let after: unknown = undefined;
    do {
      const query = after === undefined ? asked.query : { ...asked.query, after };
      const page: { items: T[]; next?: unknown } = await this.json(operation, { ...asked, query });
      yield* page.items;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
}
