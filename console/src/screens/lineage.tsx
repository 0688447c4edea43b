// Where a world comes from, and what was forked from it and from that: a tree that can be walked.
import { api, type Family, type WorldDetails } from '../api/client';
import { useLoad } from '../api/use';
import { to } from '../lib/route';
import { useSession } from '../lib/session';
import { count } from '../lib/text';
import { Badge, Loading, Problem } from '../ui/basics';
import { Icon } from '../ui/icon';

const NODES_MAX = 200;

interface Node {
  details: WorldDetails;
  forks: Node[];
  cut: boolean;
}

/** From the oldest ancestor down, breadth first, up to a number of worlds. */
async function tree(universe: string, world: string, signal: AbortSignal): Promise<Node> {
  const describe = (name: string) => api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path: { universe, world: name }, signal });
  const family = (name: string) => api.get<Family>('/v1/u/{universe}/worlds/{world}/lineage', { path: { universe, world: name }, signal });
  const root = (await family(world)).ancestors.at(-1)?.world ?? world;
  const node = async (name: string): Promise<Node> => ({ details: await describe(name), forks: [], cut: false });
  const top = await node(root);
  const queue = [top];
  let seen = 1;
  for (let next = queue.shift(); next; next = queue.shift()) {
    const { forks, more_forks } = await family(next.details.world);
    const room = forks.slice(0, Math.max(0, NODES_MAX - seen));
    next.cut = more_forks || room.length < forks.length;
    const found = await Promise.all(room.map((fork) => node(fork.world).catch(() => undefined)));
    next.forks = found.filter((fork) => fork !== undefined).sort((a, b) => a.details.first_height - b.details.first_height);
    seen += next.forks.length;
    queue.push(...next.forks);
  }
  return top;
}

export function Lineage({ world }: { world: string }) {
  const { universe } = useSession();
  const found = useLoad((signal) => tree(universe, world, signal), [universe, world], 10_000);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="the lineage" />;
  return (
    <div>
      <header class="screen-head">
        <h1>Lineage of {world}</h1>
      </header>
      <p class="prose">Every fork shares its parent’s records below the height where it branches.</p>
      <ul class="lineage">
        <Branch node={found.value} current={world} universe={universe} />
      </ul>
    </div>
  );
}

function Branch({ node, current, universe }: { node: Node; current: string; universe: string }) {
  const { details } = node;
  const name = details.name ?? `${details.world.slice(0, 14)}…`;
  const isCurrent = [details.name, details.world].includes(current);
  return (
    <li>
      <div class={`branch ${isCurrent ? 'current' : ''}`}>
        {details.parent && <span class="forked-at" title="The height where it branches"><Icon of="fork" /> {details.parent.forked_at}</span>}
        <a href={to(['u', universe, 'worlds', details.name ?? details.world])} aria-current={isCurrent ? 'true' : undefined}>
          {name}
        </a>
        <Badge of={details.state} />
        <span class="mute">
          {details.program} · head {details.head ?? 0}
          {details.effects ? ` · effects: ${details.effects}` : ''}
        </span>
        <span class="outcome">{outcome(details)}</span>
        {details.parent && (
          <a href={to(['u', universe, 'compare'], { left: details.parent.world, right: details.name ?? details.world, from: details.parent.forked_at })}>compare with its parent</a>
        )}
      </div>
      {(node.forks.length > 0 || node.cut) && (
        <ul>
          {node.forks.map((fork) => (
            <Branch key={fork.details.world} node={fork} current={current} universe={universe} />
          ))}
          {node.cut && <li class="mute">more forks than are shown here</li>}
        </ul>
      )}
    </li>
  );
}

function outcome(details: WorldDetails): string {
  if (details.hold) return `on hold: ${details.hold.code}`;
  if (details.failures > 0) return `${count(details.failures, 'step')} failed`;
  const own = (details.head ?? 0) - details.first_height;
  return own <= 1 && details.parent ? 'nothing of its own yet' : `${count(own, 'own record')}`;
}
