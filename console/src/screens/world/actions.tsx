// What can be done to a world. Each says what follows before it acts; what the token does not allow is not shown.
import { useState } from 'preact/hooks';
import { api, type Proof, type WorldDetails } from '../../api/client';
import { command } from '../../lib/commands';
import { go, to } from '../../lib/route';
import { useMay, useSession } from '../../lib/session';
import { count } from '../../lib/text';
import { Confirm, type Action } from '../../ui/basics';
import { toast } from '../../ui/toast';
import { worldActions } from '../world-actions';

export function Actions({ details, world, forkAddress, height, reload }: { details: WorldDetails; world: string; forkAddress: string; height: number; reload: () => void }) {
  const may = useMay();
  const { universe } = useSession();
  const [action, setAction] = useState<Action>();
  const of = worldActions(universe, [{ world: details.world, name: details.name ?? world }]);
  const buttons: Action[] = [];
  if (may('admin')) {
    if (details.hold) buttons.push(of.retry, of.skip);
    else if (details.state === 'paused') buttons.push(of.resume);
    else if (details.state === 'live') buttons.push(of.pause);
    if (details.state === 'archived') buttons.push(of.unarchive);
    else buttons.push(of.archive);
    buttons.push(of.delete);
  }
  const close = (done: boolean) => {
    const wasDelete = action === undefined ? false : action.label === of.delete.label;
    setAction(undefined);
    if (done && wasDelete) go(to(['u', universe, 'worlds']));
    else if (done) reload();
  };
  return (
    <div class="actions">
      {may('send') && details.state !== 'archived' && (
        <a class="button primary" href={forkAddress} title="Branch here (f)">
          Fork after {height}
        </a>
      )}
      {may('admin') && details.state !== 'archived' && (
        <a class="button" href={to(['u', universe, 'programs', 'rehearse'], { world: details.name ?? details.world })}>
          Upgrade…
        </a>
      )}
      {may('read') && (
        <button type="button" onClick={() => setAction(verify(universe, details))}>
          Verify
        </button>
      )}
      {buttons.map((it) => (
        <button key={it.label} type="button" class={it.danger ? 'danger-quiet' : ''} onClick={() => setAction(it)}>
          {it.label}
        </button>
      ))}
      {action && <Confirm action={action} close={close} />}
    </div>
  );
}

function verify(universe: string, details: WorldDetails): Action {
  const world = details.name ?? details.world;
  const asked = { path: { universe, world } };
  return {
    label: 'Verify',
    title: `Prove the history of ${world}`,
    consequence: <p>The world is replayed from its first record and from its newest snapshot: chain, outcomes, receipts and snapshots must come out byte for byte. It is only read, and goes on meanwhile; a long history takes a while.</p>,
    command: command(universe, ['world', 'verify', world], 'POST', '/v1/u/{universe}/worlds/{world}/verify', asked),
    run: async () => {
      const proof = await api.post<Proof>('/v1/u/{universe}/worlds/{world}/verify', asked);
      toast(`Proven: ${count(proof.records, 'record')}, ${count(proof.receipts, 'receipt')}, ${count(proof.snapshots, 'snapshot')}, byte for byte`);
    },
  };
}
