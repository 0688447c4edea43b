import { type Http, uniqueKey } from './http.js';
import type { components } from './schema.js';

type Schemas = components['schemas'];
type Form<S extends keyof Schemas> = Omit<Schemas[S], 'operation_id'> & { operation_id?: string };
export type CommandResult = Schemas['CommandResult'];
type Command = 'reserve' | 'enqueue' | 'cancel' | 'activate' | 'release' | 'revoke' | 'reclaim';

/** A pool of resources that are leased. A command that is repeated is carried out once: it has an operation id. */
export class Pool {
  constructor(
    private readonly http: Http,
    readonly name: string,
  ) {}

  private get path() {
    return { pool: this.name };
  }

  private command(verb: Command, form: object & { operation_id?: string }): Promise<CommandResult> {
    const body = { operation_id: uniqueKey(), ...form };
    return this.http.json(['POST', `/v1/u/{universe}/pools/{pool}/${verb}`], { path: this.path, body, repeatable: true });
  }

  get(): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}'], { path: this.path });
  }

  createResources(resources: Array<{ resource: string; labels?: string[] }>): Promise<CommandResult[]> {
    const asked = { path: this.path, body: { resources, operation_id: uniqueKey() }, repeatable: true };
    return this.http.json(['POST', '/v1/u/{universe}/pools/{pool}/resources'], asked);
  }

  resource(resource: string, query: object = {}): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}/resources/{resource}'], { path: { ...this.path, resource }, query });
  }

  lease(lease: string, query: object = {}): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}/leases/{lease}'], { path: { ...this.path, lease }, query });
  }

  /** A page of the leases, of all shards or of one. */
  leases(query: object = {}): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}/leases'], { path: this.path, query });
  }

  /** A page of the resources, of all shards or of one. */
  resources(query: object = {}): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}/resources'], { path: this.path, query });
  }

  ticket(ticket: string, query: object = {}): Promise<Record<string, any>> {
    return this.http.json(['GET', '/v1/u/{universe}/pools/{pool}/tickets/{ticket}'], { path: { ...this.path, ticket }, query });
  }

  /** Reserves resources by name, or so many of a label: all of them, or none. */
  reserve(form: Form<'ReserveForm'>): Promise<CommandResult> {
    return this.command('reserve', form);
  }

  /** Waits in the pool's queue for resources of a label. */
  enqueue(form: Form<'EnqueueForm'>): Promise<CommandResult> {
    return this.command('enqueue', form);
  }

  cancel(form: Form<'CancelForm'>): Promise<CommandResult> {
    return this.command('cancel', form);
  }

  activate(form: Form<'HolderForm'>): Promise<CommandResult> {
    return this.command('activate', form);
  }

  release(form: Form<'HolderForm'>): Promise<CommandResult> {
    return this.command('release', form);
  }

  revoke(form: Form<'LeaseForm'>): Promise<CommandResult> {
    return this.command('revoke', form);
  }

  reclaim(form: Form<'LeaseForm'>): Promise<CommandResult> {
    return this.command('reclaim', form);
  }

  async delete(): Promise<void> {
    await this.http.json(['DELETE', '/v1/u/{universe}/pools/{pool}'], { path: this.path });
  }
}
