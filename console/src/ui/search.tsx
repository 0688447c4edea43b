// The search at the top: worlds whose name contains what is typed; a world by its id, and an effect by its intent.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, type Page, type World } from '../api/client';
import { useKeys } from '../lib/keys';
import { go, to } from '../lib/route';
import { short } from '../lib/text';
import { Badge } from './basics';

const SHOWN = 8;
/** A page ends after a number of looks: in a large universe, what is rare lies on a later one. */
const PAGES_MAX = 4;
const TYPED_MS = 200;

async function find(universe: string, text: string, signal?: AbortSignal): Promise<World[]> {
  const worlds: World[] = [];
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX && worlds.length < SHOWN; page += 1) {
    const found: Page<World> = await api.get('/v1/u/{universe}/worlds', { path: { universe }, query: { name_contains: text, after, limit: SHOWN }, signal });
    worlds.push(...found.items);
    after = found.next;
    if (after === null) break;
  }
  return worlds.slice(0, SHOWN);
}

export function Search({ universe }: { universe: string }) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [found, setFound] = useState<World[]>([]);
  const [chosen, choose] = useState(-1);
  useKeys({ '/': () => input.current?.focus() });
  const wanted = text.trim();
  useEffect(() => {
    choose(-1);
    setFound([]);
    if (wanted === '' || /^[iw]_/.test(wanted)) return;
    const abort = new AbortController();
    const timer = setTimeout(() => find(universe, wanted, abort.signal).then(setFound, () => undefined), TYPED_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [universe, wanted]);

  const leave = (address: string) => {
    setText('');
    input.current?.blur();
    go(address);
  };
  const open = (name: string) => leave(to(['u', universe, 'worlds', name]));
  /** Where Enter leads: to the world of exactly this name, or to the table of those whose names contain it. */
  const search = async () => {
    if (!wanted) return;
    const suggested = found[chosen];
    if (suggested) return open(suggested.name ?? suggested.world);
    if (/^i_/.test(wanted)) return leave(to(['u', universe, 'effects'], { effect: wanted }));
    if (/^w_/.test(wanted)) return open(wanted);
    // The first name that begins so is the name itself, if there is a world of that name.
    const page = await api.get<Page<World>>('/v1/u/{universe}/worlds', { path: { universe }, query: { name: wanted, limit: 1 } }).catch(() => undefined);
    if (page?.items[0]?.name === wanted) open(wanted);
    else leave(to(['u', universe, 'worlds'], { name: wanted }));
  };
  const isOpen = found.length > 0 && wanted !== '';
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        void search();
      }}
    >
      <input ref={input} type="text" placeholder="Find a world or an effect   /" aria-label="Find a world by a part of its name or by its id, or an effect by its intent"
        role="combobox" aria-expanded={isOpen} aria-controls="search-found" aria-autocomplete="list" aria-activedescendant={isOpen && chosen >= 0 ? `search-${chosen}` : undefined}
        autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)}
        onBlur={() => setFound([])}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur();
          const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
          if (!step || !isOpen) return;
          event.preventDefault();
          choose(Math.max(-1, Math.min(found.length - 1, chosen + step)));
        }} />
      <ul id="search-found" role="listbox" aria-label="Worlds that were found" class={isOpen ? 'found' : 'sr'} hidden={!isOpen}>
        {found.map((world, index) => (
          // The field keeps the focus until the click: without it the list would be gone before.
          <li key={world.world} id={`search-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => event.preventDefault()} onClick={() => open(world.name ?? world.world)}>
            <span class="cut">{world.name ?? short(world.world)}</span>
            <Badge of={world.state} />
          </li>
        ))}
      </ul>
    </form>
  );
}
