// The frame around every screen: sign-in, navigation, search, and whether the server answers.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, onReach, type Caller } from './api/client';
import { useLoad } from './api/use';
import { useKeys } from './lib/keys';
import { go, to, useRoute, type Route } from './lib/route';
import { SessionContext, type Session } from './lib/session';
import { useSettings } from './lib/settings';
import { Compare } from './screens/compare';
import { Effects } from './screens/effects';
import { Fleet } from './screens/fleet';
import { ForkScreen } from './screens/fork';
import { Home } from './screens/home';
import { DeadLetters } from './screens/letters';
import { Lineage } from './screens/lineage';
import { PoolScreen, Pools } from './screens/pools';
import { Programs } from './screens/programs';
import { Rehearse } from './screens/rehearse';
import { Settings, SignIn } from './screens/settings';
import { Timers } from './screens/timers';
import { WorldScreen } from './screens/world';
import { Worlds } from './screens/worlds';
import { Problem } from './ui/basics';
import { Search } from './ui/search';
import { Shortcuts } from './ui/shortcuts';
import { Toasts } from './ui/toast';

interface Found {
  caller: Caller;
  universes: { name: string; universe: string }[];
}

export function App() {
  const { token } = useSettings();
  const found = useLoad<Found>(
    async (signal) => {
      const caller = await api.get<Caller>('/v1/whoami', { signal });
      return { caller, universes: await api.get<Found['universes']>('/v1/universes', { signal }) };
    },
    [token],
  );
  if (found.error && !found.value) {
    if (found.error.status === 401) return <SignIn isWrong={token !== ''} />;
    return (
      <main class="alone">
        <Problem error={found.error} retry={found.reload} />
      </main>
    );
  }
  if (!found.value) return <main class="alone" aria-busy="true" />;
  return <Frame {...found.value} reload={found.reload} />;
}

function Frame({ caller, universes, reload }: Found & { reload: () => void }) {
  const route = useRoute();
  const first = universes.find((it) => it.name === 'default') ?? universes[0];
  const universe = route.path[0] === 'u' && route.path[1] ? route.path[1] : (first?.name ?? 'default');
  const session: Session = { caller, universe, universes: universes.map((it) => it.name) };
  const [help, setHelp] = useState(false);
  useKeys({ '?': () => setHelp(true), g: () => go(to(['u', universe])) });
  const [, screen] = place(route);
  useEffect(() => {
    document.title = [...route.path.slice(2).reverse(), 'Mundi'].join(' · ');
  }, [route]);
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById('content')?.focus())}>
        Skip to the content
      </a>
      <div class="frame">
        <nav class="side" aria-label="Main">
          <a class="logo" href={to(['u', universe])} aria-label="Mundi, home">
            <Logo /> Mundi
          </a>
          <label class="universe">
            <span>Universe</span>
            <select value={universe} onChange={(event) => go(to(['u', event.currentTarget.value]))}>
              {universes.map((it) => (
                <option key={it.universe} value={it.name}>
                  {it.name}
                </option>
              ))}
              {!universes.some((it) => it.name === universe) && <option value={universe}>{universe}</option>}
            </select>
          </label>
          <Links universe={universe} chosen={screen} />
          <div class="side-end">
            <Reach onBack={reload} />
            <span class="who" title={`This token allows: ${caller.can.join(', ')}`}>
              {caller.name || 'unnamed token'} · {caller.can.join(', ')}
            </span>
            <button type="button" class="quiet" onClick={() => setHelp(true)}>
              Keyboard <kbd>?</kbd>
            </button>
          </div>
        </nav>
        <div class="main">
          <Top route={route} universe={universe} />
          <main id="content" tabIndex={-1} key={universe}>
            <Screen route={route} />
          </main>
        </div>
      </div>
      <Toasts />
      {help && <Shortcuts close={() => setHelp(false)} />}
    </SessionContext.Provider>
  );
}

const LINKS: [string, string][] = [
  ['', 'Home'],
  ['worlds', 'Worlds'],
  ['effects', 'Effects'],
  ['timers', 'Timers'],
  ['dead-letters', 'Dead letters'],
  ['pools', 'Pools'],
  ['programs', 'Programs'],
  ['fleet', 'Fleet'],
  ['settings', 'Settings'],
];

function Links({ universe, chosen }: { universe: string; chosen: string }) {
  const current = chosen === 'compare' ? 'worlds' : chosen;
  return (
    <ul class="links">
      {LINKS.map(([path, name]) => (
        <li key={path}>
          <a href={to(['u', universe, ...(path ? [path] : [])])} aria-current={current === path ? 'page' : undefined}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The universe and the screen that an address names. */
function place({ path }: Route): [string, string] {
  return [path[1] ?? '', path[2] ?? ''];
}

function Screen({ route }: { route: Route }) {
  const [, screen] = place(route);
  const [, , , first, second] = route.path;
  switch (screen) {
    case '':
      return <Home />;
    case 'worlds':
      if (!first) return <Worlds route={route} />;
      if (second === 'fork') return <ForkScreen key={first} world={first} route={route} />;
      if (second === 'lineage') return <Lineage key={first} world={first} />;
      return <WorldScreen key={first} world={first} route={route} />;
    case 'compare':
      return <Compare route={route} />;
    case 'effects':
      return <Effects route={route} />;
    case 'timers':
      return <Timers route={route} />;
    case 'dead-letters':
      return <DeadLetters route={route} />;
    case 'pools':
      return first ? <PoolScreen key={first} pool={first} route={route} /> : <Pools />;
    case 'programs':
      return first === 'rehearse' ? <Rehearse route={route} /> : <Programs />;
    case 'fleet':
      return <Fleet />;
    case 'settings':
      return <Settings />;
    default:
      return <p class="empty">There is no screen at this address.</p>;
  }
}

function Top({ route, universe }: { route: Route; universe: string }) {
  const crumbs = route.path.slice(2);
  return (
    <header class="top">
      <ol class="crumbs" aria-label="Where you are">
        <li>
          <a href={to(['u', universe])}>{universe}</a>
        </li>
        {crumbs.map((crumb, index) => (
          <li key={index}>
            <a href={to(route.path.slice(0, index + 3))} aria-current={index === crumbs.length - 1 ? 'page' : undefined}>
              {crumb}
            </a>
          </li>
        ))}
      </ol>
      <Search universe={universe} />
    </header>
  );
}

function Reach({ onBack }: { onBack: () => void }) {
  const [reach, set] = useState('unknown');
  const before = useRef('unknown');
  useEffect(() => onReach(set), []);
  useEffect(() => {
    if (before.current === 'lost' && reach === 'reached') onBack();
    before.current = reach;
  }, [reach]);
  return (
    <span class={`reach ${reach}`} role="status">
      {reach === 'lost' ? 'Server not reachable' : 'Connected'}
    </span>
  );
}

export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect width="32" height="32" rx="8" class="logo-ground" />
      <g fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round">
        <path d="M9 26V6" />
        <path d="M9 19c0-6 14-3 14-10" />
      </g>
      <circle cx="9" cy="6" r="2.6" fill="#fff" />
      <circle cx="23" cy="8" r="2.6" fill="#c7d2fe" />
      <circle cx="9" cy="26" r="2.6" fill="#fff" />
    </svg>
  );
}
