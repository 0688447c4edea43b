// Workers, leases and where worlds are placed; engine and object store.
import { useState } from 'preact/hooks';
import { api, type Lease, type Page, type Usage, type Worker } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { useMay, useSession } from '../lib/session';
import { bytes, count, short } from '../lib/text';
import { Confirm, Copy, Empty, Loading, Problem, Time, type Action } from '../ui/basics';
import { WorldLink } from '../ui/world-link';
import { Checkup } from './checkup';
import { Pager, usePages } from './effects';
import { Workers } from './home';
import { Placement } from './placement';

export function Fleet() {
  const { universe } = useSession();
  const may = useMay();
  const [after, setAfter] = usePages([universe]);
  const [placed, setPlaced] = useState<string>();
  const [action, setAction] = useState<Action>();
  const workers = useLoad((signal) => api.get<Worker[]>('/v1/u/{universe}/workers', { path: { universe }, signal }), [universe], 3_000);
  const leases = useLoad((signal) => api.get<Page<Lease>>('/v1/u/{universe}/leases', { path: { universe }, query: { after: after.at(-1), limit: 100 }, signal }), [universe, after], 3_000);
  const drain = (worker: string): Action => ({
    label: 'Drain',
    title: `Drain ${short(worker, 16)}`,
    danger: true,
    consequence: <p>It snapshots and gives back all its worlds, which other workers take over, and runs no world of this universe any more until its process is started again.</p>,
    command: command(universe, ['worker', 'drain', worker], 'POST', '/v1/u/{universe}/workers/drain/{worker}', { path: { universe, worker } }),
    run: () => api.post('/v1/u/{universe}/workers/drain/{worker}', { path: { universe, worker } }),
  });
  return (
    <div>
      <header class="screen-head">
        <h1>Fleet</h1>
      </header>
      <Checkup workers={workers.value} />
      {workers.error && <Problem error={workers.error} />}
      <h2>Workers</h2>
      <p class="prose">Processes with the role <code>world</code>, which run this universe’s worlds. Those with other roles only take no worlds and are not listed.</p>
      <Workers workers={workers.value ?? []}>
        {(worker) => (
          <span class="actions">
            <button type="button" onClick={() => setPlaced(worker.worker)}>
              Placement
            </button>
            {may('admin') && !worker.draining && (
              <button type="button" class="danger-quiet" onClick={() => setAction(drain(worker.worker))}>
                Drain
              </button>
            )}
          </span>
        )}
      </Workers>
      <h2>Leases</h2>
      <p class="prose">A worker holds a lease for each world that it has in memory. The epoch rises with each acquisition, so that a worker that was replaced cannot write.</p>
      {leases.error && <Problem error={leases.error} />}
      {!leases.value && !leases.error && <Loading what="leases" />}
      {leases.value?.items.length === 0 && <Empty title="No world is in memory">Idle worlds cost nothing but their keys.</Empty>}
      {leases.value && leases.value.items.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Leases">
          <table>
            <thead>
              <tr>
                <th>World</th>
                <th>Worker</th>
                <th>Epoch</th>
                <th>Expires</th>
              </tr>
            </thead>
            <tbody>
              {leases.value.items.map((lease) => (
                <tr key={lease.world}>
                  <td>
                    <WorldLink id={lease.world} name={lease.world_name ?? null} /> <Copy text={lease.world} />
                  </td>
                  <td>
                    <code>{short(lease.holder, 16)}</code>
                  </td>
                  <td>{lease.epoch}</td>
                  <td>
                    <Time at={lease.expires_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager after={after} next={leases.value?.next} change={setAfter} />
      <Storage />
      {placed && <Placement worker={placed} close={() => setPlaced(undefined)} />}
      {action && <Confirm action={action} close={(done) => (setAction(undefined), done && workers.reload())} />}
    </div>
  );
}

/** Counting reads every object: only when somebody asks. */
function Storage() {
  const [asked, ask] = useState(false);
  return (
    <section>
      <h2>Engine and object store</h2>
      <p class="row">
        {!asked && (
          <button type="button" onClick={() => ask(true)}>
            Count what this universe occupies
          </button>
        )}
      </p>
      {asked && <Counted />}
    </section>
  );
}

function Counted() {
  const { universe } = useSession();
  const usage = useLoad((signal) => api.get<Usage>('/v1/u/{universe}/usage', { path: { universe }, signal }), [universe]);
  if (usage.error) return <Problem error={usage.error} />;
  if (!usage.value) return <Loading what="what it occupies" />;
  const { value } = usage;
  const amount = (of: { count: number; bytes: number }) => `${count(of.count, 'object')}, ${bytes(of.bytes)}`;
  return (
    <dl class="facts panel pad">
      <div>
        <dt>Engine on disk, all universes</dt>
        <dd>{bytes(value.engine_disk_bytes)}</dd>
      </div>
      <div>
        <dt>Objects in the engine</dt>
        <dd>{amount(value.inline_objects)}</dd>
      </div>
      <div>
        <dt>Objects in the object store</dt>
        <dd>{amount(value.stored_objects)}</dd>
      </div>
      <div>
        <dt>Without a reference</dt>
        <dd>{amount(value.condemned_objects)}</dd>
      </div>
      <div>
        <dt>Segments of old records</dt>
        <dd>{amount(value.segments)}</dd>
      </div>
      <div>
        <dt>Worlds</dt>
        <dd>{value.worlds.toLocaleString('en-US')}</dd>
      </div>
    </dl>
  );
}
