// Pools: what is leased, by whom, in which state; the policy of watchers; and taking back what a holder does not give back.
import { useState } from 'preact/hooks';
import { api, type Page } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { refine, to, type Route } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { count } from '../lib/text';
import { Badge, Commands, Confirm, Dialog, Empty, Field, Id, Loading, Problem, Time, type Action } from '../ui/basics';
import { toast } from '../ui/toast';
import type { Refusal } from '../api/client';
import { Pager } from './effects';

interface PoolEntry {
  pool: string;
  shards: number;
  created_at: string;
}

interface Policy {
  holder_ended?: boolean;
  silent_after_ms?: number;
  probe?: { url: string; failures_max: number; timeout_ms: number };
  reclaim_after_ms?: number;
}

interface ByState {
  resources_reserved: number;
  resources_active: number;
  resources_revoking: number;
}

interface Described {
  pool: string;
  config: Record<string, number>;
  shards: { shard: number; counts: { resources: number; live: number; waiting: number; by_state: ByState } }[];
  watch: Policy | null;
}

interface Resource {
  resource_id: string;
  name: string | null;
  labels: string[];
  current_state: string;
  current_lease_id: string | null;
  version: number;
}

interface ResourceLease {
  lease_id: string;
  holder_id: string;
  state: string;
  lease_epoch: number;
  deadline_slot: number;
  member_count: number;
}

const P = '/v1/u/{universe}/pools/{pool}';
const LEASE_STATES = ['reserved', 'active', 'revoking', 'released', 'expired', 'revoked'];
const RESOURCE_STATES = ['available', 'reserved', 'active', 'revoking'];

export function Pools() {
  const { universe } = useSession();
  const found = useLoad((signal) => api.get<PoolEntry[]>('/v1/u/{universe}/pools', { path: { universe }, signal }), [universe], 5_000);
  return (
    <div>
      <header class="screen-head">
        <h1>Pools</h1>
        <span class="mute">resources that are leased, and never handed out early</span>
      </header>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="pools" />}
      {found.value?.length === 0 && <Empty title="No pool">A pool leases scarce things to agents: browsers, GPUs, seats. `mundi pool create` makes one.</Empty>}
      {found.value && found.value.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Pools">
          <table>
            <thead>
              <tr>
                <th>Pool</th>
                <th>Shards</th>
                <th>Since</th>
              </tr>
            </thead>
            <tbody>
              {found.value.map((it) => (
                <tr key={it.pool}>
                  <td>
                    <a href={to(['u', universe, 'pools', it.pool])}>{it.pool}</a>
                  </td>
                  <td>{it.shards}</td>
                  <td>
                    <Time at={it.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Commands of={command(universe, ['pool', 'list'], 'GET', '/v1/u/{universe}/pools', { path: { universe } })} />
    </div>
  );
}

export function PoolScreen({ pool, route }: { pool: string; route: Route }) {
  const { universe } = useSession();
  const path = { universe, pool };
  const shard = Number(route.query.get('shard') ?? 0);
  const found = useLoad((signal) => api.get<Described>(P, { path, signal }), [universe, pool], 3_000);
  const [turn, again] = useState(0);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="the pool" />;
  const changed = () => (found.reload(), again(turn + 1));
  return (
    <div>
      <header class="screen-head">
        <h1>{pool}</h1>
        <span class="mute">{totals(found.value)}</span>
      </header>
      {found.value.shards.length > 1 && (
        <div class="filters" role="group" aria-label="Filters">
          <select aria-label="Shard" value={shard} onChange={(event) => refine({ shard: event.currentTarget.value, state: '', holder: '' })}>
            {found.value.shards.map((it) => (
              <option key={it.shard} value={it.shard}>
                Shard {it.shard}
              </option>
            ))}
          </select>
        </div>
      )}
      <Watch pool={pool} policy={found.value.watch} changed={changed} />
      <Leases pool={pool} shard={shard} route={route} turn={turn} isWatched={found.value.watch !== null} changed={changed} />
      <Resources pool={pool} shard={shard} turn={turn} />
      <Commands of={command(universe, ['pool', 'describe', pool], 'GET', P, { path })} />
    </div>
  );
}

function totals({ shards }: Described): string {
  const sum = (of: (it: Described['shards'][0]['counts']) => number) => shards.reduce((total, it) => total + of(it.counts), 0);
  const taken = sum((it) => it.by_state.resources_reserved + it.by_state.resources_active + it.by_state.resources_revoking);
  const resources = sum((it) => it.resources);
  return `${resources - taken} of ${count(resources, 'resource')} available · ${count(sum((it) => it.live), 'live lease')} · ${sum((it) => it.waiting)} waiting`;
}

function Watch({ pool, policy, changed }: { pool: string; policy: Policy | null; changed: () => void }) {
  const may = useMay();
  const [open, setOpen] = useState(false);
  return (
    <section class="panel pad" aria-label="Watchers">
      <h2>Watchers</h2>
      <p>{policy ? rules(policy) : 'Nobody watches this pool: leases that a holder does not release are revoked and reclaimed by hand.'}</p>
      {may('admin') && (
        <button type="button" onClick={() => setOpen(true)}>
          Change the policy
        </button>
      )}
      {open && <PolicyDialog pool={pool} policy={policy} close={(done) => (setOpen(false), done && changed())} />}
    </section>
  );
}

function rules({ holder_ended, silent_after_ms, probe, reclaim_after_ms }: Policy): string {
  const when = [
    holder_ended && 'its holder’s world was deleted or archived',
    silent_after_ms !== undefined && `its holder sent no heartbeat for ${silent_after_ms} ms`,
    probe && `${probe.url} failed ${probe.failures_max} times in a row`,
  ].filter(Boolean);
  const revoke = when.length > 0 ? `A lease is revoked when ${when.join(', or ')}.` : 'No lease is revoked by a watcher.';
  return `${revoke} ${reclaim_after_ms === undefined ? 'Reclaiming is left to people.' : `It is reclaimed ${reclaim_after_ms} ms later.`}`;
}

function PolicyDialog({ pool, policy, close }: { pool: string; policy: Policy | null; close: (done: boolean) => void }) {
  const { universe } = useSession();
  const path = { universe, pool };
  const text = (value: number | undefined) => (value === undefined ? '' : String(value));
  const [ended, setEnded] = useState(policy?.holder_ended ?? true);
  const [silent, setSilent] = useState(text(policy?.silent_after_ms));
  const [reclaim, setReclaim] = useState(text(policy?.reclaim_after_ms));
  const [error, setError] = useState<Refusal>();
  const number = (value: string) => (value === '' ? undefined : Number(value));
  const body: Policy = { holder_ended: ended, silent_after_ms: number(silent), probe: policy?.probe, reclaim_after_ms: number(reclaim) };
  const run = (work: Promise<unknown>, done: string) => work.then(() => (toast(done), close(true)), (refusal: Refusal) => setError(refusal));
  const words = ['pool', 'watch', pool, ended && '--holder-ended', ...(silent ? ['--silent-after-ms', silent] : []), ...(reclaim ? ['--reclaim-after-ms', reclaim] : [])];
  return (
    <Dialog title={`Watch ${pool}`} close={() => close(false)}>
      <label class="check">
        <input type="checkbox" checked={ended} onChange={(event) => setEnded(event.currentTarget.checked)} /> Revoke when the holder’s world was deleted or archived
      </label>
      <Field label="Revoke when silent for (ms)" hint="Holders that are no worlds send heartbeats; empty for no such rule.">
        <input type="number" min={1} value={silent} onInput={(event) => setSilent(event.currentTarget.value)} />
      </Field>
      <Field label="Reclaim after (ms)" hint="Longer than a holder that lost its lease could still act; empty to leave it to people.">
        <input type="number" min={0} value={reclaim} onInput={(event) => setReclaim(event.currentTarget.value)} />
      </Field>
      {error && <Problem error={error} />}
      <footer>
        {policy && (
          <button type="button" class="danger-quiet" onClick={() => run(api.delete(`${P}/watch`, { path }), `${pool} is not watched any more`)}>
            Watch no more
          </button>
        )}
        <button type="button" class="primary" onClick={() => run(api.put(`${P}/watch`, { path, body }), `${pool} is watched`)}>
          Watch
        </button>
      </footer>
      <Commands of={command(universe, words, 'PUT', `${P}/watch`, { path, body })} />
    </Dialog>
  );
}

function Leases({ pool, shard, route, turn, isWatched, changed }: { pool: string; shard: number; route: Route; turn: number; isWatched: boolean; changed: () => void }) {
  const { universe } = useSession();
  const may = useMay();
  const path = { universe, pool };
  const get = (name: string) => route.query.get(name) ?? '';
  const [state, holder] = [get('state'), get('holder')];
  const [after, setAfter] = useState<string[]>([]);
  const query = { shard, state, holder, after: after.at(-1), limit: 100 };
  const found = useLoad((signal) => api.get<Page<ResourceLease>>(`${P}/leases`, { path, query, signal }), [universe, pool, query, turn], 3_000);
  const [action, setAction] = useState<Action>();
  const act = (verb: 'revoke' | 'reclaim', lease: ResourceLease): Action => ({
    label: verb === 'revoke' ? 'Revoke' : 'Reclaim',
    title: `${verb === 'revoke' ? 'Revoke' : 'Reclaim'} ${lease.lease_id}`,
    danger: true,
    consequence: (
      <p>
        {verb === 'revoke'
          ? 'The holder loses its authority at once. The resources stay unavailable until the lease is reclaimed.'
          : 'The resources become available. Make sure first that the last holder does not act on them any more: a resource that does not check the epoch cannot tell.'}
      </p>
    ),
    command: command(universe, ['pool', verb, pool, lease.lease_id], 'POST', `${P}/${verb}`, { path, body: { lease_id: lease.lease_id } }),
    run: async () => {
      await api.post(verb === 'revoke' ? `${P}/revoke` : `${P}/reclaim`, { path, body: { lease_id: lease.lease_id } });
      toast(verb === 'revoke' ? 'The lease is being revoked' : 'The lease was reclaimed');
      changed();
    },
  });
  const verbOf = (lease: ResourceLease) => (lease.state === 'active' ? 'revoke' : lease.state === 'revoking' ? 'reclaim' : undefined);
  return (
    <section aria-label="Leases">
      <h2>Leases</h2>
      <div class="filters" role="group" aria-label="Filters of leases">
        <select aria-label="State of leases" value={state} onChange={(event) => refine({ state: event.currentTarget.value })}>
          <option value="">All states</option>
          {LEASE_STATES.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
        <input type="search" placeholder="Holder" aria-label="Only those of this holder" value={holder} onChange={(event) => refine({ holder: event.currentTarget.value })} />
      </div>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="leases" />}
      {found.value?.items.length === 0 && <Empty title="No lease">A lease appears when a resource is reserved, and stays for a while after it ended.</Empty>}
      {found.value && found.value.items.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Leases">
          <table>
            <thead>
              <tr>
                <th>Lease</th>
                <th>State</th>
                <th>Epoch</th>
                <th>Holder</th>
                <th>Resources</th>
                {may('admin') && <th>Take back</th>}
              </tr>
            </thead>
            <tbody>
              {found.value.items.map((lease) => {
                const verb = verbOf(lease);
                return (
                  <tr key={lease.lease_id}>
                    <td>
                      <Id id={lease.lease_id} length={28} />
                    </td>
                    <td>
                      <Badge of={lease.state} />
                    </td>
                    <td>{lease.lease_epoch}</td>
                    <td>
                      <Id id={lease.holder_id} length={20} />
                    </td>
                    <td>{lease.member_count}</td>
                    {may('admin') && (
                      <td>
                        {verb && (
                          <button type="button" class="danger-quiet" onClick={() => setAction(act(verb, lease))}>
                            {verb === 'revoke' ? 'Revoke' : 'Reclaim'}
                          </button>
                        )}
                        {verb === 'reclaim' && isWatched && <span class="mute"> or the watcher does</span>}
                      </td>
                    )}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      <Pager after={after} next={found.value?.next} change={setAfter} />
      {action && <Confirm action={action} close={() => setAction(undefined)} />}
    </section>
  );
}

function Resources({ pool, shard, turn }: { pool: string; shard: number; turn: number }) {
  const { universe } = useSession();
  const path = { universe, pool };
  const [state, setState] = useState('');
  const [after, setAfter] = useState<string[]>([]);
  const query = { shard, state, after: after.at(-1), limit: 100 };
  const found = useLoad((signal) => api.get<Page<Resource>>(`${P}/resources`, { path, query, signal }), [universe, pool, query, turn], 3_000);
  return (
    <section aria-label="Resources">
      <h2>Resources</h2>
      <div class="filters" role="group" aria-label="Filters of resources">
        <select aria-label="State of resources" value={state} onChange={(event) => (setState(event.currentTarget.value), setAfter([]))}>
          <option value="">All states</option>
          {RESOURCE_STATES.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
      </div>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="resources" />}
      {found.value?.items.length === 0 && <Empty title="No resource">`mundi resource create` adds what the pool leases.</Empty>}
      {found.value && found.value.items.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Resources">
          <table>
            <thead>
              <tr>
                <th>Resource</th>
                <th>State</th>
                <th>Lease</th>
                <th>Labels</th>
                <th>Version</th>
              </tr>
            </thead>
            <tbody>
              {found.value.items.map((it) => (
                <tr key={it.resource_id}>
                  <td>{it.name ?? <Id id={it.resource_id} />}</td>
                  <td>
                    <Badge of={it.current_state} />
                  </td>
                  <td>{it.current_lease_id ? <Id id={it.current_lease_id} length={28} /> : <span class="mute">–</span>}</td>
                  <td>{it.labels.join(', ')}</td>
                  <td>{it.version}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager after={after} next={found.value?.next} change={setAfter} />
    </section>
  );
}
