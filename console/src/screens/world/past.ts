// A world at a height: what the record there changed, what was open after it, and the cells.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { api, Refusal, type Cell, type Family, type Step } from '../../api/client';

export interface Moment {
  height: number;
  step: Step;
  cells: Cell[];
  /** There are more cells than were asked for. */
  more: boolean;
}

export const CELLS_MAX = 1_000;
const KEPT_MAX = 300;

/** A fork keeps its own records only; what lies below is asked of the ancestor that wrote it. */
export function ownerOf(world: string, firstHeight: number, height: number, family: Family | undefined): string {
  if (height >= firstHeight) return world;
  let owner = world;
  for (const ancestor of family?.ancestors ?? []) {
    if (height >= ancestor.forked_at) break;
    owner = ancestor.world;
  }
  return owner;
}

async function load(universe: string, world: string, height: number, prefix: string, signal: AbortSignal): Promise<Moment> {
  const query = { limit: 200, cells: CELLS_MAX, prefix };
  const step = await api.get<Step>('/v1/u/{universe}/worlds/{world}/steps/{height}', { path: { universe, world, height }, query, signal });
  return { height, step, cells: step.cells, more: step.cells.length === CELLS_MAX };
}

/** The newest height that is wanted, and no other, is asked for: a slider that is dragged passes many. */
export function useMoment(universe: string, owner: string | undefined, height: number | undefined, prefix: string) {
  const kept = useRef(new Map<string, Moment>());
  const [state, set] = useState<{ moment?: Moment; error?: Refusal }>({});
  const wantedAt = useRef<[number, number] | undefined>(undefined);

  useEffect(() => {
    if (owner === undefined || height === undefined || height < 0) return;
    wantedAt.current = [height, performance.now()];
    const key = `${owner} ${height} ${prefix}`;
    const known = kept.current.get(key);
    if (known) {
      set({ moment: known });
      return;
    }
    const abort = new AbortController();
    load(universe, owner, height, prefix, abort.signal).then(
      (moment) => {
        if (abort.signal.aborted) return;
        kept.current.set(key, moment);
        if (kept.current.size > KEPT_MAX) kept.current.delete(kept.current.keys().next().value!);
        set({ moment });
      },
      (error) => abort.signal.aborted || set({ error: error as Refusal }),
    );
    return () => abort.abort();
  }, [universe, owner, height, prefix]);

  // How long it took from the wish to the page that shows it: tests and the bench read these measures.
  useLayoutEffect(() => {
    const wanted = wantedAt.current;
    if (!state.moment || !wanted || state.moment.height !== wanted[0]) return;
    performance.measure('mundi-moment', { start: wanted[1] });
    wantedAt.current = undefined;
  }, [state.moment]);
  return state;
}
