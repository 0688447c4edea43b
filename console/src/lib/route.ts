// Where one is: everything that can be looked at has an address of its own, behind the `#`, so that it can be linked to.
import { useLayoutEffect, useState } from 'preact/hooks';

export interface Route {
  path: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map(decode);
  return { path: parts, query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type Query = Record<string, string | number | undefined | null | false>;

export function to(path: (string | number)[], query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map((part) => encodeURIComponent(part)).join('/')}${text ? `?${text}` : ''}`;
}

export function go(address: string) {
  location.hash = address;
}

/** Changes the query of the address without a new entry in the history: for what moves continuously, such as the slider. */
export function refine(query: Query) {
  const route = parse(location.hash);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '' || value === false) route.query.delete(name);
    else route.query.set(name, String(value));
  }
  const address = to(route.path, Object.fromEntries(route.query));
  if (address !== location.hash) {
    history.replaceState(null, '', address);
    dispatchEvent(new HashChangeEvent('hashchange'));
  }
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  // Before the browser does anything else: what changes between the first look and an effect after the paint would be missed.
  useLayoutEffect(() => {
    const moved = () => set(parse(location.hash));
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  return route;
}
