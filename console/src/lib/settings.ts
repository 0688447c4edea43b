// What the user chose. Theme and times are kept in the browser; a token lives in the session only, and never in an address.
import { useLayoutEffect, useState } from 'preact/hooks';

export type Theme = 'auto' | 'light' | 'dark';
export type Zone = 'local' | 'utc';

interface Settings {
  theme: Theme;
  zone: Zone;
  token: string;
}

function stored(storage: Storage, key: string, otherwise: string): string {
  try {
    return storage.getItem(`mundi.${key}`) ?? otherwise;
  } catch {
    return otherwise; // a browser may forbid storage: then choices last as long as the page
  }
}

function store(storage: Storage, key: string, value: string) {
  try {
    if (value) storage.setItem(`mundi.${key}`, value);
    else storage.removeItem(`mundi.${key}`);
  } catch {
    // as above
  }
}

let current: Settings = {
  theme: stored(localStorage, 'theme', 'auto') as Theme,
  zone: stored(localStorage, 'zone', 'local') as Zone,
  token: stored(sessionStorage, 'token', ''),
};

const listeners = new Set<() => void>();

export function settings(): Settings {
  return current;
}

export function change(changed: Partial<Settings>) {
  current = { ...current, ...changed };
  store(localStorage, 'theme', current.theme);
  store(localStorage, 'zone', current.zone);
  store(sessionStorage, 'token', current.token);
  show();
  listeners.forEach((listener) => listener());
}

function show() {
  const root = document.documentElement;
  if (current.theme === 'auto') root.removeAttribute('data-theme');
  else root.setAttribute('data-theme', current.theme);
}

show();

export function useSettings(): Settings {
  const [seen, set] = useState(current);
  // Before the browser does anything else: what changes between the first look and an effect after the paint would be missed.
  useLayoutEffect(() => {
    const listener = () => set(current);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return seen;
}
