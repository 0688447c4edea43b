import { useState } from 'preact/hooks';
import { useSession } from '../lib/session';
import { change, useSettings, type Theme, type Zone } from '../lib/settings';
import { Commands, Field } from '../ui/basics';
import { Logo } from '../app';
import { curl, mundi } from '../lib/commands';

export function Settings() {
  const { caller, universe } = useSession();
  const chosen = useSettings();
  return (
    <div class="narrow">
      <header class="screen-head">
        <h1>Settings</h1>
      </header>
      <section class="panel pad">
        <h2>How it looks</h2>
        <Field label="Theme">
          <select value={chosen.theme} onChange={(event) => change({ theme: event.currentTarget.value as Theme })}>
            <option value="auto">As the system</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </Field>
        <Field label="Times" hint="Hold the pointer over a time to see both.">
          <select value={chosen.zone} onChange={(event) => change({ zone: event.currentTarget.value as Zone })}>
            <option value="local">Local time</option>
            <option value="utc">UTC</option>
          </select>
        </Field>
      </section>
      <section class="panel pad">
        <h2>Who you are</h2>
        <dl class="facts">
          <div>
            <dt>Name</dt>
            <dd>{caller.name || 'unnamed token'}</dd>
          </div>
          <div>
            <dt>May</dt>
            <dd>{caller.can.join(', ')}</dd>
          </div>
          <div>
            <dt>In</dt>
            <dd>{caller.universe ?? 'all universes'}</dd>
          </div>
          <div>
            <dt>Server</dt>
            <dd>version {caller.version}</dd>
          </div>
        </dl>
        <Token />
        {chosen.token && (
          <button type="button" onClick={() => change({ token: '' })}>
            Sign out
          </button>
        )}
        <Commands of={{ mundi: mundi(universe, 'world', 'list'), curl: curl('GET', '/v1/whoami') }} />
      </section>
    </div>
  );
}

function Token({ isWrong = false }: { isWrong?: boolean }) {
  const [token, set] = useState('');
  return (
    <form
      class="token"
      onSubmit={(event) => {
        event.preventDefault();
        if (token.trim()) change({ token: token.trim() });
        set('');
      }}
    >
      <Field label="Token" hint="It stays in this tab until you close it, and never appears in an address. Make one with: mundi token create --can read,send,admin">
        <input type="password" autocomplete="off" value={token} placeholder="mundi_…" onInput={(event) => set(event.currentTarget.value)} />
      </Field>
      {isWrong && (
        <p class="bad-text" role="alert">
          The server does not know this token.
        </p>
      )}
      <button type="submit" class="primary">
        Use this token
      </button>
    </form>
  );
}

export function SignIn({ isWrong }: { isWrong: boolean }) {
  return (
    <main class="alone">
      <div class="panel pad">
        <h1 class="logo">
          <Logo /> Mundi
        </h1>
        <p>This server asks for a token.</p>
        <Token isWrong={isWrong} />
      </div>
    </main>
  );
}
