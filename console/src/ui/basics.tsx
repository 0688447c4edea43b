// The small parts that every screen is made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Refusal } from '../api/client';
import type { Command } from '../lib/commands';
import { bothZones, clock, moment, relative } from '../lib/time';
import { short } from '../lib/text';
import { useNow } from '../api/use';
import { Icon } from './icon';

export function Copy({ text, what = 'id' }: { text: string; what?: string }) {
  const [copied, set] = useState(false);
  const copy = async (event: Event) => {
    event.preventDefault();
    event.stopPropagation();
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    set(true);
    setTimeout(() => set(false), 1_200);
  };
  return (
    <button type="button" class="copy" title={`Copy the ${what}`} aria-label={`Copy the ${what} ${text.slice(0, 24)}`} onClick={copy}>
      <Icon of={copied ? 'done' : 'copy'} />
    </button>
  );
}

export function Id({ id, length = 12 }: { id: string; length?: number }) {
  return (
    <span class="id" title={id}>
      <code>{short(id, length)}</code>
      <Copy text={id} />
    </span>
  );
}

const TONES: Record<string, string> = {
  live: 'good', ok: 'good', answered: 'good', ready: 'good', same: 'good', upgraded: 'good',
  paused: 'warn', waiting: 'warn', timeout: 'warn', draining: 'warn', deleting: 'warn', pending: 'warn', open: 'warn',
  on_hold: 'bad', dead_letter: 'bad', error: 'bad', failed: 'bad', refused: 'bad', diverges: 'bad',
  available: 'good', reserved: 'info', active: 'info', revoking: 'warn', released: 'mute', expired: 'mute', revoked: 'mute',
  running: 'info', done: 'good', cancelled: 'mute', diverged: 'bad', passed: 'good', queued: 'mute', leased: 'info', started: 'info',
  claimed: 'info', archived: 'mute', deleted: 'mute', withdrawn: 'mute',
};

export function Badge({ of, children }: { of: string; children?: ComponentChildren }) {
  return <span class={`badge ${TONES[of] ?? 'mute'}`}>{children ?? of.replaceAll('_', ' ')}</span>;
}

export function Time({ at, as = 'relative' }: { at: string | null | undefined; as?: 'relative' | 'clock' | 'full' }) {
  const now = useNow();
  if (!at) return <span class="mute">–</span>;
  const text = as === 'relative' ? relative(at, now) : as === 'clock' ? clock(at) : moment(at);
  return (
    <time dateTime={at} title={bothZones(at)}>
      {text}
    </time>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-more">{children}</div>}
    </div>
  );
}

export function Problem({ error, retry }: { error: Refusal; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <strong>{error.isUnreachable ? 'The server does not answer' : error.code}</strong>
      <span>{error.isUnreachable ? 'It is asked again every second; nothing that was acknowledged is lost.' : error.message}</span>
      {retry && !error.isUnreachable && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return <p class="loading">Loading {what}…</p>;
}

/** The commands that do the same as what stands beside them. */
export function Commands({ of, title = 'As a command' }: { of: Command; title?: string }) {
  return (
    <details class="commands">
      <summary>{title}</summary>
      {of.mundi && <Line text={of.mundi} what="mundi command" />}
      <Line text={of.curl} what="curl command" />
    </details>
  );
}

function Line({ text, what }: { text: string; what: string }) {
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <Copy text={text} what={what} />
    </div>
  );
}

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={close} onCancel={close} onClick={(event) => event.target === dialog.current && close()}>
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            <Icon of="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A button that asks before it acts, and says what follows. */
export interface Action {
  label: string;
  title: string;
  consequence: ComponentChildren;
  command?: Command;
  danger?: boolean;
  run: () => Promise<unknown>;
}

export function Confirm({ action, close }: { action: Action; close: (done: boolean) => void }) {
  const [state, set] = useState<{ busy?: boolean; error?: Refusal }>({});
  const run = async () => {
    set({ busy: true });
    try {
      await action.run();
      close(true);
    } catch (error) {
      set({ error: error as Refusal });
    }
  };
  return (
    <Dialog title={action.title} close={() => close(false)}>
      <div class="prose">{action.consequence}</div>
      {state.error && <Problem error={state.error} />}
      <footer>
        <button type="button" onClick={() => close(false)}>
          Cancel
        </button>
        <button type="button" class={action.danger ? 'danger' : 'primary'} disabled={state.busy} onClick={run} autoFocus>
          {state.busy ? 'Working…' : action.label}
        </button>
      </footer>
      {action.command && <Commands of={action.command} />}
    </Dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: ComponentChildren; children: ComponentChildren }) {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      {children}
      {hint && <span class="hint">{hint}</span>}
    </label>
  );
}

export function Tabs<T extends string>({ of, chosen, choose, label }: { of: [T, ComponentChildren][]; chosen: T; choose: (tab: T) => void; label: string }) {
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {of.map(([tab, name]) => (
        <button key={tab} type="button" role="tab" aria-selected={tab === chosen} tabIndex={tab === chosen ? 0 : -1} onClick={() => choose(tab)}
          onKeyDown={(event) => {
            const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
            if (!step) return;
            event.stopPropagation();
            const index = of.findIndex(([it]) => it === chosen);
            choose(of[(index + step + of.length) % of.length]![0]);
          }}>
          {name}
        </button>
      ))}
    </div>
  );
}
