import { Http, type Options } from './http.js';
import { Pool } from './pool.js';
import type { components, paths } from './schema.js';
import { type Handler, Worker, type WorkerOptions } from './worker.js';
import { World } from './world.js';

type Schemas = components['schemas'];
type ListQuery<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } } ? NonNullable<Q> : never;

export type WorldEntry = Schemas['World'];
export type Effect = Schemas['Effect'];
export type DeadLetter = Schemas['Letter'];
export type Imported = Schemas['ImportedWorld'];
export type StoredBlob = Schemas['Blob'];

export type BulkWorld = Schemas['BulkWorld'];

export interface BulkPage {
  items: BulkWorld[];
  /** Where the next page begins; null at the end. */
  next?: string | null;
}

export interface BulkOptions {
  /** Only says which worlds it would be. */
  dryRun?: boolean;
  /** Worlds in a page: 100 at most. */
  limit?: number;
  /** The `next` of a page: goes on behind it. */
  after?: string;
  signal?: AbortSignal;
}

/** A universe of a server. */
export class Mundi {
  /** For requests that have no method here. */
  readonly http: Http;

  constructor(options: Options = {}) {
    this.http = new Http(options);
  }

  /** The same server and token, another universe. */
  universe(name: string): Mundi {
    return new Mundi({ ...this.http.options, universe: name });
  }

  /** What the caller's token allows. */
  whoami(): Promise<Schemas['Caller']> {
    return this.http.json(['GET', '/v1/whoami']);
  }

  /** Counts of worlds by state, and of queued items. */
  summary(): Promise<Schemas['Summary']> {
    return this.http.json(['GET', '/v1/u/{universe}/summary']);
  }

  /** Read-only SQL over the tables of the universe: `rows` has the values in the order of `columns`. */
  sql(query: string, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<Schemas['SqlAnswer']> {
    // Sent once: a query that is too large is refused as full, and would be again.
    return this.http.json(['POST', '/v1/u/{universe}/sql'], { body: { query, timeout_ms: options.timeoutMs }, signal: options.signal });
  }

  /** A world by its name or its id. */
  world(name: string): World {
    return new World(this.http, name);
  }

  /** Creates a world; one that exists already with the same program is returned. Without a name it gets a random id. */
  async create(world: string | undefined, options: Omit<Schemas['NewWorld'], 'world'>): Promise<World> {
    const asked = { body: { world, ...options }, repeatable: world !== undefined };
    const created: Schemas['Created'] = await this.http.json(['POST', '/v1/u/{universe}/worlds'], asked);
    return new World(this.http, world ?? created.world);
  }

  /** All worlds that match the filters. */
  list(filters: ListQuery<'/v1/u/{universe}/worlds'> = {}): AsyncGenerator<WorldEntry> {
    return this.http.items(['GET', '/v1/u/{universe}/worlds'], { query: filters });
  }

  /** How many worlds match the filters, by state. */
  async count(filters: ListQuery<'/v1/u/{universe}/world-count'> = {}): Promise<{ count: number; states: Record<string, number> }> {
    const all = { count: 0, states: {} as Record<string, number> };
    for (let after: string | undefined; ; ) {
      const page: Schemas['WorldCount'] = await this.http.json(['GET', '/v1/u/{universe}/world-count'], { query: { ...filters, after } });
      all.count += page.count;
      for (const [state, count] of Object.entries(page.states)) all.states[state] = (all.states[state] ?? 0) + count;
      if (page.next === null || page.next === undefined) return all;
      after = page.next;
    }
  }

  /**
   * Pauses, resumes, archives, unarchives or deletes all worlds that match the filters, page by page. At least one filter has to be given. Each page
   * says what became of its worlds; an iteration that was interrupted goes on with the `next` of its last page as `after`.
   */
  async *bulk(verb: Schemas['BulkVerb'], filters: Schemas['WorldFilters'], options: BulkOptions = {}): AsyncGenerator<BulkPage> {
    let after = options.after;
    do {
      const body = { verb, filters, dry_run: options.dryRun ?? false, limit: options.limit, after };
      const page: BulkPage = await this.http.json(['POST', '/v1/u/{universe}/bulk'], { body, repeatable: true, signal: options.signal });
      yield page;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  /** Verifies a bundle and creates its world. */
  import(bundle: Blob | Uint8Array | ReadableStream<Uint8Array>, query: { world?: string; effects?: 'suppress' | 'live' } = {}): Promise<Imported> {
    return this.http.json(['POST', '/v1/u/{universe}/bundles'], { bytes: bundle, query });
  }

  putBlob(bytes: Blob | Uint8Array | ReadableStream<Uint8Array>): Promise<StoredBlob> {
    return this.http.json(['POST', '/v1/u/{universe}/blobs'], { bytes, repeatable: true });
  }

  getBlob(hash: string): Promise<Uint8Array> {
    return this.http.send(['GET', '/v1/u/{universe}/blobs/{hash}'], { path: { hash } }, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  /** The effects that have no receipt yet. */
  effects(filters: ListQuery<'/v1/u/{universe}/effects'> = {}): AsyncGenerator<Effect> {
    return this.http.items(['GET', '/v1/u/{universe}/effects'], { query: filters });
  }

  /** One effect. With `world`, one that is over is found in the journal. */
  effect(effect: string, query: { world?: string } = {}): Promise<Effect> {
    return this.http.json(['GET', '/v1/u/{universe}/effects/{effect}'], { path: { effect }, query });
  }

  retryEffect(effect: string, query: { world?: string } = {}): Promise<Schemas['Changed']> {
    return this.http.json(['POST', '/v1/u/{universe}/effects/retry/{effect}'], { path: { effect }, query, repeatable: true });
  }

  cancelEffect(effect: string, body: Schemas['Cancel'] = {}): Promise<Schemas['Changed']> {
    return this.http.json(['POST', '/v1/u/{universe}/effects/cancel/{effect}'], { path: { effect }, body, repeatable: true });
  }

  /** Gives an open effect the receipt that an operator chooses. */
  answerEffect(effect: string, body: { status: Schemas['AnswerStatus']; payload?: unknown; world?: string }): Promise<Schemas['Answered']> {
    return this.http.json(['POST', '/v1/u/{universe}/effects/answer/{effect}'], { path: { effect }, body, repeatable: true });
  }

  deadLetters(filters: ListQuery<'/v1/u/{universe}/dead-letters'> = {}): AsyncGenerator<DeadLetter> {
    return this.http.items(['GET', '/v1/u/{universe}/dead-letters'], { query: filters });
  }

  deadLetter(letter: string): Promise<DeadLetter> {
    return this.http.json(['GET', '/v1/u/{universe}/dead-letters/{letter}'], { path: { letter } });
  }

  /** Replays dead letters: `letters`, or those of a `queue` that match. Ask again while `more` is true. */
  replayDeadLetters(which: Omit<Schemas['Bulk'], 'action'>): Promise<Schemas['BulkDone']> {
    return this.http.json(['POST', '/v1/u/{universe}/dead-letters'], { body: { action: 'replay', ...which } });
  }

  dropDeadLetters(which: Omit<Schemas['Bulk'], 'action'>): Promise<Schemas['BulkDone']> {
    return this.http.json(['POST', '/v1/u/{universe}/dead-letters'], { body: { action: 'drop', ...which } });
  }

  pools(): Promise<Array<Schemas['PoolEntry']>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools']);
  }

  async createPool(name: string, options: Omit<Schemas['NewPool'], 'name'> = {}): Promise<Pool> {
    await this.http.json(['POST', '/v1/u/{universe}/pools'], { body: { name, ...options }, repeatable: true });
    return new Pool(this.http, name);
  }

  pool(name: string): Pool {
    return new Pool(this.http, name);
  }

  /** A worker for effects: a handler for each kind. It works from `run` to `stop`. */
  worker(handlers: Record<string, Handler>, options: WorkerOptions = {}): Worker {
    return new Worker(this.http, handlers, options);
  }
}
