// What worlds asked of the outside and have no receipt for: by kind, age and attempts.
import { useState } from 'preact/hooks';
import { api, type Effect, type Page } from '../api/client';
import { useLoad } from '../api/use';
import { refine, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { gist } from '../lib/text';
import { Badge, Dialog, Empty, Id, Loading, Problem, Time } from '../ui/basics';
import { Value } from '../ui/json';
import { WorldLink } from '../ui/world-link';
import { EffectActions } from './effect-actions';
import { Attempts } from './world/record';

export function Effects({ route }: { route: Route }) {
  const { universe } = useSession();
  const get = (name: string) => route.query.get(name) ?? '';
  const [world, kind, chosen] = [get('world'), get('kind'), get('effect')];
  const [after, setAfter] = useState<string[]>([]);
  const query = { world, kind, after: after.at(-1), limit: 100 };
  const found = useLoad((signal) => api.get<Page<Effect>>('/v1/u/{universe}/effects', { path: { universe }, query, signal }), [universe, query], 3_000);
  const items = found.value?.items ?? [];
  const kinds = [...new Set([kind, ...items.map((effect) => effect.kind)].filter(Boolean))].sort();
  return (
    <div>
      <header class="screen-head">
        <h1>Effects</h1>
        <span class="mute">asked of the outside, and not answered yet</span>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <input type="search" placeholder="World" aria-label="Only those of this world" value={world} onChange={(event) => refine({ world: event.currentTarget.value })} />
        <select aria-label="Kind" value={kind} onChange={(event) => refine({ kind: event.currentTarget.value })}>
          <option value="">Any kind</option>
          {kinds.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
      </div>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="effects" />}
      {found.value && items.length === 0 && (
        <Empty title="No effect is open">Every effect that a world asked for has its receipt. Those that were given up on are <a href={to(['u', universe, 'dead-letters'])}>dead letters</a>.</Empty>
      )}
      {items.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Effects">
          <table>
            <thead>
              <tr>
                <th>Effect</th>
                <th>World</th>
                <th>Stage</th>
                <th>Attempts</th>
                <th>Asked for</th>
                <th>Next try or deadline</th>
                <th>Last failure</th>
                <th>
                  <span class="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((effect) => (
                <tr key={effect.effect}>
                  <td>
                    <button type="button" class="link" onClick={() => refine({ effect: effect.effect })}>
                      {effect.kind}
                    </button>{' '}
                    <span class="mute">{effect.label}</span>
                  </td>
                  <td>
                    <WorldLink id={effect.world} at={effect.height} tab="record" />
                  </td>
                  <td>
                    <Badge of={effect.stage} />
                  </td>
                  <td>
                    {effect.attempts}
                    {effect.attempts_max ? ` of ${effect.attempts_max}` : ''}
                  </td>
                  <td>
                    <Time at={effect.published_at} />
                  </td>
                  <td>
                    <Time at={effect.claimed_until ?? effect.not_before} />
                  </td>
                  <td class="error-text">{effect.last_failure ? gist(`${effect.last_failure}: ${effect.last_reason ?? ''}`, 80) : ''}</td>
                  <td>
                    <EffectActions effect={effect} done={found.reload} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager after={after} next={found.value?.next} change={setAfter} />
      {chosen && <One effect={chosen} world={world} close={() => refine({ effect: undefined })} />}
    </div>
  );
}

export function Pager({ after, next, change }: { after: string[]; next?: string | null; change: (after: string[]) => void }) {
  if (after.length === 0 && !next) return null;
  return (
    <p class="row">
      <button type="button" disabled={after.length === 0} onClick={() => change(after.slice(0, -1))}>
        Previous page
      </button>
      <button type="button" disabled={!next} onClick={() => next && change([...after, next])}>
        Next page
      </button>
    </p>
  );
}

function One({ effect, world, close }: { effect: string; world: string; close: () => void }) {
  const { universe } = useSession();
  const found = useLoad((signal) => api.get<Effect>('/v1/u/{universe}/effects/{effect}', { path: { universe, effect }, query: { world }, signal }), [universe, effect], 3_000);
  return (
    <Dialog title="Effect" close={close}>
      {found.error && <Problem error={found.error} />}
      {found.value && (
        <>
          <p>
            <strong>{found.value.kind}</strong> <Badge of={found.value.stage} /> <Id id={found.value.effect} />
          </p>
          <p>
            asked for by{' '}
            <WorldLink id={found.value.world} at={found.value.height} tab="record" /> at height {found.value.height}, <Time at={found.value.published_at} />
          </p>
          <span class="field-label">Parameters</span>
          <Value value={found.value.params} />
          {found.value.failed.length > 0 && <Attempts effect={found.value} />}
          {found.value.receipt && (
            <>
              <span class="field-label">
                Receipt <Badge of={found.value.receipt.status} /> from {found.value.receipt.adapter} at height {found.value.receipt.height}
              </span>
              <Value value={found.value.receipt.payload} />
            </>
          )}
          <EffectActions effect={found.value} done={found.reload} />
        </>
      )}
    </Dialog>
  );
}
