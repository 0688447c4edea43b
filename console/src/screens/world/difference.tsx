// The cells that differ between two heights of a world.
import { api, type Difference, type WorldDetails } from '../../api/client';
import { useLoad } from '../../api/use';
import { command } from '../../lib/commands';
import { refine } from '../../lib/route';
import { Commands, Empty, Loading, Problem } from '../../ui/basics';
import { Differences } from '../../ui/differences';
import type { Journal } from './journal';

export function DifferenceOf({ details, journal, universe, world, head, height, other }: { details: WorldDetails; journal: Journal; universe: string; world: string; head: number; height: number; other?: number }) {
  const left = Math.min(other ?? Math.max(details.first_height, height - 1), head - 1);
  const [from, until] = [journal.settled(left, head), journal.settled(height, head)];
  const asked = { path: { universe, world }, query: { at: from, with_at: until, limit: 500 } };
  const found = useLoad((signal) => api.get<Difference[]>('/v1/u/{universe}/worlds/{world}/diff', { ...asked, signal }), [universe, world, from, until]);
  return (
    <div>
      <p class="row">
        <label>
          Height{' '}
          <input type="number" min={details.first_height} max={head - 1} value={left} aria-label="The other height" onChange={(event) => refine({ vs: Number(event.currentTarget.value) })} />
        </label>
        <span>against height {height}, which is under the slider</span>
      </p>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="the difference" />}
      {found.value &&
        (found.value.length === 0 ? (
          <Empty title={`No cell differs between ${left} and ${height}`}>Move the slider, or choose another height to compare with.</Empty>
        ) : (
          <Differences of={found.value} left={`after ${left}`} right={`after ${height}`} />
        ))}
      <Commands of={command(universe, ['world', 'diff', world, '--at', from, '--with-at', until], 'GET', '/v1/u/{universe}/worlds/{world}/diff', asked)} />
    </div>
  );
}
