import { api, type Page, type Timer } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { refine, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { gist } from '../lib/text';
import { Commands, Empty, Id, Loading, Problem, Time } from '../ui/basics';
import { WorldLink } from '../ui/world-link';
import { Pager, usePages } from './effects';

export function Timers({ route }: { route: Route }) {
  const { universe } = useSession();
  const world = route.query.get('world') ?? '';
  const [after, setAfter] = usePages([universe, world]);
  const query = { world, after: after.at(-1), limit: 100 };
  const found = useLoad((signal) => api.get<Page<Timer>>('/v1/u/{universe}/timers', { path: { universe }, query, signal }), [universe, query], 3_000);
  return (
    <div>
      <header class="screen-head">
        <h1>Timers</h1>
        <span class="mute">what worlds will be told, and when</span>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <input type="search" placeholder="World" aria-label="Only those of this world" value={world} onChange={(event) => refine({ world: event.currentTarget.value })} />
      </div>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="timers" />}
      {found.value?.items.length === 0 && <Empty title="No timer is set">A program sets a timer to be woken later: for a deadline, a reminder, or the next round of something.</Empty>}
      {found.value && found.value.items.length > 0 && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Timers">
          <table>
            <thead>
              <tr>
                <th>Fires</th>
                <th>At</th>
                <th>World</th>
                <th>Set at height</th>
                <th>What comes back</th>
                <th>Timer</th>
              </tr>
            </thead>
            <tbody>
              {found.value.items.map((timer) => (
                <tr key={timer.timer}>
                  <td>
                    <Time at={timer.deliver_at} />
                  </td>
                  <td>
                    <Time at={timer.deliver_at} as="full" />
                  </td>
                  <td>
                    <WorldLink id={timer.world} name={timer.world_name ?? null} />
                  </td>
                  <td>
                    <a href={to(['u', universe, 'worlds', timer.world], { at: timer.height, tab: 'record' })}>{timer.height}</a>
                  </td>
                  <td class="mono">{gist(timer.payload, 80)}</td>
                  <td>
                    <Id id={timer.timer} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager after={after} next={found.value?.next} change={setAfter} />
      <Commands of={command(universe, ['timer', 'list', ...(world ? ['--world', world] : [])], 'GET', '/v1/u/{universe}/timers', { path: { universe }, query: { world } })} />
    </div>
  );
}
