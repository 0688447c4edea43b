// A world by its id, shown by its name: lists of the API name worlds by id only.
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

export function WorldLink({ id, at, tab }: { id: string; at?: number; tab?: string }) {
  const { universe } = useSession();
  const [name, set] = useState('');
  useEffect(() => {
    let isCurrent = true;
    set('');
    void nameOf(universe, id).then((found) => isCurrent && set(found));
    return () => {
      isCurrent = false;
    };
  }, [universe, id]);
  return (
    <a href={to(['u', universe, 'worlds', name || id], { at, tab })} title={id}>
      {name || short(id, 12)}
    </a>
  );
}
