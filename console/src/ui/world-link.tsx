// A world, shown by its name.
import { useEffect, useState } from 'preact/hooks';
import { api, type WorldDetails } from '../api/client';
import { to } from '../lib/route';
import { useSession } from '../lib/session';
import { short } from '../lib/text';

const KEPT_MAX = 5_000;
const names = new Map<string, Promise<string>>();

function nameOf(universe: string, world: string): Promise<string> {
  const key = `${universe}/${world}`;
  if (!names.has(key)) {
    if (names.size >= KEPT_MAX) names.clear();
    const found = api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path: { universe, world } }).then((it) => it.name ?? '');
    names.set(key, found.catch(() => ''));
  }
  return names.get(key)!;
}

interface Props {
  id: string;
  /** As the list said it: null for a world without one. Only where nothing is said, as in a record, the server is asked. */
  name?: string | null;
  at?: number;
  tab?: string;
}

export function WorldLink({ id, name: given, at, tab }: Props) {
  const { universe } = useSession();
  const [found, set] = useState('');
  useEffect(() => {
    if (given !== undefined) return;
    let isCurrent = true;
    set('');
    void nameOf(universe, id).then((it) => isCurrent && set(it));
    return () => {
      isCurrent = false;
    };
  }, [universe, id, given]);
  const name = given ?? found;
  return (
    <a href={to(['u', universe, 'worlds', name || id], { at, tab })} title={id}>
      {name || short(id, 12)}
    </a>
  );
}
