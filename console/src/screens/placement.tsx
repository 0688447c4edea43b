// Which worlds a worker should run: the orchestrator's choice, and what people pinned.
import { useState } from 'preact/hooks';
import { api, type Assigned, type Page, type Refusal } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { useMay, useSession } from '../lib/session';
import { short } from '../lib/text';
import { Commands, Dialog, Empty, Field, Loading, Problem } from '../ui/basics';
import { toast } from '../ui/toast';
import { WorldLink } from '../ui/world-link';
import { Pager, usePages } from './effects';

const PAGE = 50;
const ASSIGNMENT = '/v1/u/{universe}/worlds/{world}/assignment';

export function Placement({ worker, close }: { worker: string; close: () => void }) {
  const { universe } = useSession();
  const may = useMay();
  const [after, setAfter] = usePages([universe, worker]);
  const path = { universe, worker };
  const query = { after: after.at(-1), limit: PAGE };
  const found = useLoad((signal) => api.get<Page<Assigned>>('/v1/u/{universe}/assignments/{worker}', { path, query, signal }), [universe, worker, query]);
  const [world, setWorld] = useState('');
  const [error, setError] = useState<Refusal>();
  const act = async (work: Promise<unknown>, done: string) => {
    setError(undefined);
    try {
      await work;
      toast(done);
      setWorld('');
      found.reload();
    } catch (refusal) {
      setError(refusal as Refusal);
    }
  };
  const pin = (event: Event) => {
    event.preventDefault();
    void act(api.put(ASSIGNMENT, { path: { universe, world }, body: { worker } }), `${world} is pinned to ${short(worker, 14)}`);
  };
  return (
    <Dialog title={`Placement of ${short(worker, 16)}`} close={close}>
      <p class="prose">These worlds are assigned to this worker: the orchestrator placed them here, or somebody pinned them. A world without an assignment is taken by whichever worker has room.</p>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="assignments" />}
      {found.value?.items.length === 0 && <Empty title="No world is assigned to this worker">It takes worlds that have work and no other place.</Empty>}
      <ul class="assigned" aria-label="Assigned worlds">
        {found.value?.items.map((it) => (
          <li key={it.world} class="row">
            <WorldLink id={it.world} name={it.world_name ?? null} />
            {may('admin') && (
              <button type="button" onClick={() => void act(api.delete(ASSIGNMENT, { path: { universe, world: it.world } }), 'The world may run anywhere')}>
                Unpin
              </button>
            )}
          </li>
        ))}
      </ul>
      <Pager after={after} next={found.value?.next} change={setAfter} />
      {may('admin') && (
        <form onSubmit={pin}>
          <Field label="Pin a world here" hint="It runs on this worker and on no other, and waits while the worker is gone.">
            <input type="text" placeholder="name or id" value={world} onInput={(event) => setWorld(event.currentTarget.value.trim())} />
          </Field>
          <button type="submit" class="primary" disabled={!world}>
            Pin
          </button>
          {error && <Problem error={error} />}
          <Commands of={command(universe, ['worker', 'pin', world || 'WORLD', worker], 'PUT', ASSIGNMENT, { path: { universe, world: world || 'WORLD' }, body: { worker } })} />
        </form>
      )}
    </Dialog>
  );
}
