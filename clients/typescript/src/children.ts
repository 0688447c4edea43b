// Children: runs that a world dispatches, each started at most once.
import { type Http, uniqueKey } from './http.js';
import { follow } from './journal.js';
import type { components } from './schema.js';

type Schemas = components['schemas'];

export type Child = Schemas['Child'];
export type Budget = Schemas['Budget'];
/** An event of a child (`urm-events@1`). */
export type ChildEvent = { event: string; seq: number; ts: string; detail: Record<string, any> } & Record<string, any>;

export interface SpawnOptions {
  params?: unknown;
  /** What the child may spend at most, by lane. */
  budget?: Record<string, number>;
  /** Under the same key the child is spawned once. One of its own unless it is given. */
  idempotencyKey?: string;
}

const W = '/v1/u/{universe}/worlds/{world}';

export class Children {
  constructor(
    private readonly http: Http,
    private readonly world: string,
  ) {}

  private get path() {
    return { world: this.world };
  }

  /** Spawns a child in place of the world's program. */
  spawn(kind: string, { params = null, budget, idempotencyKey = uniqueKey() }: SpawnOptions = {}): Promise<Child> {
    const asked = { path: this.path, body: { kind, params, budget }, headers: { 'idempotency-key': idempotencyKey }, repeatable: true };
    return this.http.json(['POST', `${W}/children`], asked);
  }

  /** All children, in the order in which they were spawned. */
  list(query: { limit?: number } = {}): AsyncGenerator<Child> {
    return this.http.items(['GET', `${W}/children`], { path: this.path, query });
  }

  get(child: string): Promise<Child> {
    return this.http.json(['GET', `${W}/children/{child}`], { path: { ...this.path, child } });
  }

  /** Cancels a child. One that has ended stays as it is. */
  cancel(child: string, idempotencyKey = uniqueKey()): Promise<Schemas['Cancelled']> {
    const asked = { path: { ...this.path, child }, body: {}, headers: { 'idempotency-key': idempotencyKey }, repeatable: true };
    return this.http.json(['POST', `${W}/children/{child}/cancel`], asked);
  }

  /** The events of a child. With `follow` it continues until the child has ended, also after the server was restarted. */
  async *events(child: string, options: { from?: number; follow?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<ChildEvent> {
    const { from: first = 0, signal } = options;
    const path = { ...this.path, child };
    if (!options.follow) return yield* await this.http.json<ChildEvent[]>(['GET', `${W}/children/{child}/events`], { path, query: { from: first }, signal });
    const isOver = async () => (await this.get(child)).phase === 'terminal';
    yield* follow<ChildEvent>(this.http, { operation: ['GET', `${W}/children/{child}/events`], path, first, numberOf: (event) => event.seq, isOver, signal });
  }

  /** What the children have spent, and may spend. */
  budget(): Promise<Budget> {
    return this.http.json(['GET', `${W}/budget`], { path: this.path });
  }

  /** Sets limits by lane; null removes one. */
  setBudget(limits: Record<string, number | null>): Promise<Budget> {
    return this.http.json(['PUT', `${W}/budget`], { path: this.path, body: { limits }, repeatable: true });
  }
}
