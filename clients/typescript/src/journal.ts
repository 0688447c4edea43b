// The journal of a world as an iterator: in pages up to its end, or as a stream that is taken up again wherever it broke off.
import { type Asked, Backoff, type Http, type Operation } from './http.js';
import type { components } from './schema.js';

/** A record of a journal. What it has besides its height depends on its type. */
export type JournalRecord = components['schemas']['JournalRecord'] & Record<string, any>;

export interface JournalOptions {
  /** The first height: 0 unless it is given. After `record.height + 1` an iteration continues where another ended. */
  from?: number;
  /** Continues with each record that is appended. Ends only with `signal`, or by leaving the loop. */
  follow?: boolean;
  signal?: AbortSignal;
}

const OPERATION = ['GET', '/v1/u/{universe}/worlds/{world}/journal'] as const;

export async function* journal(http: Http, world: string, options: JournalOptions): AsyncGenerator<JournalRecord> {
  const { from: first = 0, signal } = options;
  if (options.follow) return yield* follow<JournalRecord>(http, { operation: [...OPERATION], path: { world }, first, numberOf: (record) => record.height, signal });
  for (let from: number | undefined = first; from !== undefined; ) {
    const page: { items: JournalRecord[]; next?: string | number | null } = await http.json([...OPERATION], { path: { world }, query: { from }, signal });
    yield* page.items;
    from = page.next === null || page.next === undefined ? undefined : Number(page.next);
  }
}

/** A stream of server-sent events that are numbered. */
export interface Followed<T> {
  operation: Operation;
  path: Record<string, string>;
  /** The number of the event to begin with. */
  first: number;
  numberOf: (item: T) => number;
  /** Asked when a stream ends: whether there will be no other event. */
  isOver?: () => Promise<boolean>;
  signal?: AbortSignal;
}

/** The server ends a stream after a while, or is restarted: the next one begins with the event after the last that was seen. */
export async function* follow<T>(http: Http, { operation, path, first, numberOf, isOver, signal }: Followed<T>): AsyncGenerator<T> {
  let from = first;
  for (const backoff = new Backoff(); !signal?.aborted; ) {
    const body = await stream(http, operation, { path, query: { from }, signal });
    if (!body) return;
    let isWhole = false;
    try {
      for await (const data of events(body)) {
        const item = JSON.parse(data) as T;
        from = numberOf(item) + 1;
        backoff.reset();
        yield item;
      }
      isWhole = true;
    } catch (error) {
      if (error instanceof SyntaxError) throw error; // all other errors are of a connection that broke
    }
    if (isWhole && (await isOver?.())) return;
    await backoff.wait(0, signal).catch(() => undefined);
  }
}

/** Undefined if the signal was aborted. A refusal, and a server that stays away, are exceptions. */
async function stream(http: Http, operation: Operation, asked: Asked): Promise<ReadableStream<Uint8Array> | undefined> {
  try {
    return await http.send(operation, { ...asked, headers: { accept: 'text/event-stream' } }, (response) => response.body!);
  } catch (error) {
    if (asked.signal?.aborted) return undefined;
    throw error;
  }
}

/** The data of server-sent events. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (let rest = ''; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const lines = block.split('\n').filter((line) => line.startsWith('data:'));
        if (lines.length) yield lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
