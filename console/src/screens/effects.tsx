// What worlds asked of the outside and have no receipt for: by kind, age and attempts.
import { useState } from 'preact/hooks';
import { api, type Effect, type EffectsPage } from '../api/client';
import { useLoad } from '../api/use';
import { refine, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { gist, labelled } from '../lib/text';
import { Badge, Dialog, Empty, Id, Loading, Problem, Time } from '../ui/basics';
import { Value } from '../ui/json';
import { WorldLink } from '../ui/world-link';
import { EffectActions } from './effect-actions';
import { Attempts } from './world/record';

const PAGE = 200;

const STAGES: [stage: string, name: string][] = [
  ['pending', 'never tried'],
  ['waiting', 'waiting for another attempt'],
  ['claimed', 'being carried out'],
];

/** No key has these orders: the server sorts the first ten thousand for every page, so it is not asked for them as often. */
const ORDERS = ['oldest', 'newest', 'attempts'];
const QUEUE_EVERY_MS = 3_000;
const SORTED_EVERY_MS = 10_000;

export function Effects({ route }: { route: Route }) {
  const { universe } = useSession();
  const get = (name: string) => route.query.get(name) ?? '';
  const [world, kind, stage, chosen] = [get('world'), get('kind'), get('stage'), get('effect')];
  const sort = ORDERS.find((it) => it === get('sort'));
  const [after, setAfter] = usePages([universe, world, kind, stage, sort]);
  const query = { world, kind, stage, sort, after: after.at(-1), limit: PAGE };
  const every = sort ? SORTED_EVERY_MS : QUEUE_EVERY_MS;
  const found = useLoad((signal) => api.get<EffectsPage>('/v1/u/{universe}/effects', { path: { universe }, query, signal }), [universe, query], every);
  const items = found.value?.items ?? [];
  const isPart = after.length > 0 || Boolean(found.value?.next);
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
        <select aria-label="Stage" value={stage} onChange={(event) => refine({ stage: event.currentTarget.value })}>
          <option value="">Any stage</option>
          {STAGES.map(([it, name]) => (
            <option key={it} value={it}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="Order" value={sort ?? 'queue'} onChange={(event) => refine({ sort: event.currentTarget.value === 'queue' ? undefined : event.currentTarget.value })}>
          <option value="queue">In the order of the queue</option>
          <option value="oldest">Oldest first</option>
          <option value="newest">Newest first</option>
          <option value="attempts">Most attempts first</option>
        </select>
        {found.value?.partial && <span class="mute">sorted among the first 10,000: there are more</span>}
      </div>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="effects" />}
      {found.value && items.length === 0 && (kind || world || stage) && !isPart && (
        <Empty title="No open effect fits these filters">
          <a href={to(['u', universe, 'effects'])}>Show all open effects</a>
        </Empty>
      )}
      {found.value && items.length === 0 && !(kind || world || stage) && !isPart && (
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
                    <span class="mute">{labelled(effect.label)}</span>
                  </td>
                  <td>
                    <WorldLink id={effect.world} name={effect.world_name ?? null} at={effect.height} tab="record" />
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

/** Where the pages before began. Other filters begin with the first page again. */
export function usePages(filters: unknown[]): [after: string[], change: (after: string[]) => void] {
  const key = JSON.stringify(filters);
  const [state, set] = useState<{ key: string; after: string[] }>({ key, after: [] });
  return [state.key === key ? state.after : [], (after) => set({ key, after })];
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
            <WorldLink id={found.value.world} name={found.value.world_name ?? null} at={found.value.height} tab="record" /> at height {found.value.height}, <Time at={found.value.published_at} />
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
