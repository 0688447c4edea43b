import { call, type CallOptions, reply } from './call.js';
import { Children } from './children.js';
import { Functions } from './functions.js';
import type { Http } from './http.js';
import { uniqueKey } from './http.js';
import { journal, type JournalOptions, type JournalRecord } from './journal.js';
import type { components, paths } from './schema.js';

type Schemas = components['schemas'];
type Query<P extends keyof paths, M extends keyof paths[P]> = paths[P][M] extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

export type WorldDetails = Schemas['WorldDetails'];
export type Cell = Schemas['Cell'];
export type Difference = Schemas['Difference'];
export type Family = Schemas['Family'];
export type Proof = Schemas['ProofReport'];
export type Rehearsal = Schemas['RehearsalOf'];
export type Sent = Schemas['Sent'];
export type Fork = Schemas['Fork'];
export type Step = Schemas['Step'];

export interface SendOptions {
  /** A key of the sender's own, which the program sees. */
  key?: string;
  /** Sends it so much later: `10s`, `5m`, `2h`. */
  delay?: string;
  /** Under the same key the event is sent at most once. One of its own unless it is given. */
  idempotencyKey?: string;
  correlationId?: string;
  signal?: AbortSignal;
}

export interface QueryOptions {
  /** The world as it was before the record at this height. */
  at?: number;
  /** Waits until the world has taken in what `send` returned as `seq`, or has reached this height. */
  atLeast?: string | number;
  timeout?: string;
  signal?: AbortSignal;
}

/** A world, by its name or its id. That it exists is known when it is asked for something. */
export class World {
  constructor(
    private readonly http: Http,
    readonly name: string,
  ) {}

  private get path() {
    return { world: this.name };
  }

  /** All that is known about it. */
  get(): Promise<WorldDetails> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}'], { path: this.path });
  }

  /** Why it is not moving. */
  why(): Promise<Schemas['WhyWorld']> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}/why'], { path: this.path });
  }

  /** Its durable functions. */
  get functions(): Functions {
    return new Functions(this.http, this.name);
  }

  /** The runs that it dispatched. */
  get children(): Children {
    return new Children(this.http, this.name);
  }

  /** Sets labels, and removes those that are null; returns what they are then. */
  async label(labels: Record<string, string | null>): Promise<Record<string, string>> {
    const entries = Object.entries(labels);
    const set = Object.fromEntries(entries.filter(([, value]) => value !== null));
    const remove = entries.filter(([, value]) => value === null).map(([name]) => name);
    const asked = { path: this.path, body: { set, remove }, repeatable: true };
    return (await this.http.json<Schemas['LabelsOf']>(['POST', '/v1/u/{universe}/worlds/{world}/labels'], asked)).labels;
  }

  /** Sends an event. It is durable when this returns; what the program makes of it is not waited for. */
  send(event: string, value: unknown = null, options: SendOptions = {}): Promise<Sent> {
    const { key, delay, idempotencyKey = uniqueKey(), correlationId, signal } = options;
    const headers: Record<string, string> = { 'idempotency-key': idempotencyKey };
    if (correlationId) headers['correlation-id'] = correlationId;
    const asked = { path: { ...this.path, event }, query: { key, delay }, body: value ?? null, headers, signal, repeatable: true };
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/send/{event}'], asked);
  }

  /** Sends an event once and waits for the program's reply: past timeouts, broken connections and restarts of the server. */
  call<T = unknown>(event: string, value: unknown = null, options: CallOptions = {}): Promise<T> {
    return call<T>(this.http, this.name, event, value, options);
  }

  /** The reply to a call that was made before. `call` is what `mundi-call` named, and `problem.call` of a call that timed out. */
  reply<T = unknown>(name: string, options: { timeout?: string; signal?: AbortSignal } = {}): Promise<T> {
    return reply<T>(this.http, this.name, name, { query: { timeout: options.timeout }, signal: options.signal });
  }

  /** Asks the program, which cannot change anything. */
  query<T = unknown>(query: string, params: unknown = null, options: QueryOptions = {}): Promise<T> {
    const { at, atLeast: at_least, timeout, signal } = options;
    const asked = { path: { ...this.path, query }, query: { at, at_least, timeout }, body: params ?? null, signal, repeatable: true };
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/query/{query}'], asked);
  }

  /** The records of its journal. */
  journal(options: JournalOptions = {}): AsyncGenerator<JournalRecord> {
    return journal(this.http, this.name, options);
  }

  /** The changes of the record at a height, and what is open after it. */
  step(height: number, query: Query<'/v1/u/{universe}/worlds/{world}/steps/{height}', 'get'> = {}): Promise<Step> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}/steps/{height}'], { path: { ...this.path, height }, query });
  }

  /** Its cells under a prefix, in key order. */
  cells(query: Query<'/v1/u/{universe}/worlds/{world}/cells', 'get'> = {}): AsyncGenerator<Cell> {
    return this.http.items(['GET', '/v1/u/{universe}/worlds/{world}/cells'], { path: this.path, query });
  }

  cell(key: string, query: { at?: number } = {}): Promise<Cell> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}/cells/{key}'], { path: { ...this.path, key }, query });
  }

  /** Forks it at any height of its past. Without a name the new world gets a random id. */
  async fork(world?: string, options: Omit<Schemas['NewFork'], 'world'> = {}): Promise<World> {
    const asked = { path: this.path, body: { world, ...options }, repeatable: world !== undefined };
    const forked: Fork = await this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/fork'], asked);
    return new World(this.http, world ?? forked.world);
  }

  /** The cells that differ between this world and another, or between two heights. */
  diff(query: Query<'/v1/u/{universe}/worlds/{world}/diff', 'get'>): Promise<Difference[]> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}/diff'], { path: this.path, query });
  }

  lineage(): Promise<Family> {
    return this.http.json(['GET', '/v1/u/{universe}/worlds/{world}/lineage'], { path: this.path });
  }

  /** Replays it from genesis and from its baseline, and compares every hash. */
  verify(): Promise<Proof> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/verify'], { path: this.path, repeatable: true });
  }

  /** Runs its history under another program, and names the first record from which something else follows. */
  rehearse(body: Partial<Schemas['NewRehearsal']>): Promise<Rehearsal> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/rehearse'], { path: this.path, body, repeatable: true });
  }

  /** The world with its history as one file. A stream that breaks off has no end frame, and import refuses it. */
  export(options: { signal?: AbortSignal } = {}): Promise<ReadableStream<Uint8Array>> {
    const asked = { path: this.path, signal: options.signal };
    return this.http.send(['GET', '/v1/u/{universe}/worlds/{world}/bundle'], asked, (response) => response.body!);
  }

  /** The same in memory. */
  exportBytes(options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
    const asked = { path: this.path, signal: options.signal };
    return this.http.send(['GET', '/v1/u/{universe}/worlds/{world}/bundle'], asked, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  pause(): Promise<Schemas['Commanded']> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/pause'], { path: this.path, repeatable: true });
  }

  /** Continues after a pause, and after a hold. */
  resume(): Promise<Schemas['Commanded']> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/resume'], { path: this.path, repeatable: true });
  }

  /** Takes the input again that it is on hold at. */
  retry(): Promise<Schemas['Repair']> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/retry'], { path: this.path });
  }

  /** Passes the input that it is on hold at: the program does not see it. */
  skip(): Promise<Schemas['Repair']> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/skip'], { path: this.path });
  }

  upgrade(body: Partial<Schemas['NewManifest']>): Promise<Schemas['Commanded']> {
    return this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/upgrade'], { path: this.path, body });
  }

  async archive(): Promise<void> {
    await this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/archive'], { path: this.path, repeatable: true });
  }

  async unarchive(): Promise<void> {
    await this.http.json(['POST', '/v1/u/{universe}/worlds/{world}/unarchive'], { path: this.path, repeatable: true });
  }

  /** Deletes it for good. */
  async delete(): Promise<void> {
    await this.http.json(['DELETE', '/v1/u/{universe}/worlds/{world}'], { path: this.path });
  }
}
