// Retry, cancel, and answer by hand: what an operator may do about an effect.
import { useState } from 'preact/hooks';
import { api, type Effect, type Refusal } from '../api/client';
import { command } from '../lib/commands';
import { useMay, useSession } from '../lib/session';
import { parsed } from '../lib/text';
import { Commands, Confirm, Dialog, Field, Problem, type Action } from '../ui/basics';

const OPEN_STAGES = ['pending', 'waiting', 'claimed', 'open', 'dead_letter'];

export function EffectActions({ effect, done }: { effect: Effect; done: () => void }) {
  const may = useMay();
  const { universe } = useSession();
  const [action, setAction] = useState<Action>();
  const [isAnswering, setAnswering] = useState(false);
  if (!may('admin') || !OPEN_STAGES.includes(effect.stage)) return null;
  const path = { universe, effect: effect.effect };
  const { world } = effect;
  const retry: Action = {
    label: 'Try now',
    title: `Try ${effect.kind} now`,
    consequence: <p>The effect is tried at once, in place of its next scheduled attempt; a dead letter comes back to life. The outside may see the request again, under the same idempotency key.</p>,
    command: command(universe, ['effect', 'retry', effect.effect, '--world', world], 'POST', '/v1/u/{universe}/effects/retry/{effect}', { path, query: { world } }),
    run: () => api.post('/v1/u/{universe}/effects/retry/{effect}', { path, query: { world } }),
  };
  const body = { reason: 'cancelled in the console', world };
  const cancel: Action = {
    label: 'Cancel the effect',
    title: `Cancel ${effect.kind}`,
    danger: true,
    consequence: <p>Its world gets an <code>error</code> receipt with the code <code>EFFECT_CANCELLED</code>, and the program decides what follows. What the outside has already done is not undone.</p>,
    command: command(universe, ['effect', 'cancel', effect.effect, '--world', world], 'POST', '/v1/u/{universe}/effects/cancel/{effect}', { path, body }),
    run: () => api.post('/v1/u/{universe}/effects/cancel/{effect}', { path, body }),
  };
  return (
    <span class="actions">
      {(effect.stage === 'waiting' || effect.stage === 'dead_letter') && (
        <button type="button" onClick={() => setAction(retry)}>
          Try now
        </button>
      )}
      <button type="button" onClick={() => setAnswering(true)}>
        Answer by hand
      </button>
      <button type="button" onClick={() => setAction(cancel)}>
        Cancel
      </button>
      {action && <Confirm action={action} close={(was) => (setAction(undefined), was && done())} />}
      {isAnswering && <Answer effect={effect} close={(was) => (setAnswering(false), was && done())} />}
    </span>
  );
}

function Answer({ effect, close }: { effect: Effect; close: (done: boolean) => void }) {
  const { universe } = useSession();
  const [status, setStatus] = useState('ok');
  const [text, setText] = useState('null');
  const [error, setError] = useState<Refusal>();
  const payload = parsed(text);
  const asked = { path: { universe, effect: effect.effect }, body: { status, payload: payload.value, world: effect.world } };
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      await api.post('/v1/u/{universe}/effects/answer/{effect}', asked);
      close(true);
    } catch (refusal) {
      setError(refusal as Refusal);
    }
  };
  return (
    <Dialog title={`Answer ${effect.kind} by hand`} close={() => close(false)}>
      <form onSubmit={send}>
        <p class="prose">The world gets this receipt, which names you, and no other. The effect is not carried out any more.</p>
        <Field label="Status">
          <select value={status} onChange={(event) => setStatus(event.currentTarget.value)}>
            <option value="ok">ok: it was done</option>
            <option value="error">error: it failed</option>
            <option value="timeout">timeout: nobody knows</option>
          </select>
        </Field>
        <Field label="Payload (JSON)" hint={payload.problem}>
          <textarea rows={5} value={text} onInput={(event) => setText(event.currentTarget.value)} spellcheck={false} />
        </Field>
        {error && <Problem error={error} />}
        <footer>
          <button type="button" onClick={() => close(false)}>
            Back
          </button>
          <button type="submit" class="primary" disabled={payload.problem !== undefined}>
            Give this answer
          </button>
        </footer>
        <Commands of={command(universe, ['effect', 'answer', effect.effect, '--status', status, JSON.stringify(payload.value ?? null), '--world', effect.world], 'POST', '/v1/u/{universe}/effects/answer/{effect}', asked)} />
      </form>
    </Dialog>
  );
}
