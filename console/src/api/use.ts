// Answers of the API as state of a screen.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Refusal } from './client';

export interface Loaded<T> {
  value?: T;
  error?: Refusal;
  loading: boolean;
  reload: () => void;
}

/** Loads again when `deps` change, with a `version` when that changes, and with `everyMs` from time to time while the page is visible. What was there stays until the new one is. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], everyMs?: number, version?: number): Loaded<T> {
  const [state, set] = useState<{ value?: T; error?: Refusal; loading: boolean }>({ loading: true });
  const [turn, again] = useState(0);
  const newest = useRef(load);
  newest.current = load;
  const key = JSON.stringify(deps);
  const keyBefore = useRef(key);

  useEffect(() => {
    const abort = new AbortController();
    const isOther = keyBefore.current !== key;
    keyBefore.current = key;
    set((before) => ({ value: isOther ? undefined : before.value, error: before.error, loading: true }));
    newest.current(abort.signal).then(
      (value) => abort.signal.aborted || set({ value, loading: false }),
      (error) => {
        if (abort.signal.aborted) return;
        const refusal = error instanceof Refusal ? error : new Refusal(-1, 'PAGE', String(error));
        // Losing the server for a moment does not empty the screen.
        set((before) => ({ value: refusal.isUnreachable ? before.value : undefined, error: refusal, loading: false }));
      },
    );
    return () => abort.abort();
  }, [key, turn, version]);

  const isLost = state.error?.isUnreachable ?? false;
  useEffect(() => {
    const wait = isLost ? 1_000 : everyMs;
    if (!wait) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && again((turn) => turn + 1), wait);
    return () => clearInterval(timer);
  }, [everyMs, key, isLost]);

  return { ...state, reload: useCallback(() => again((turn) => turn + 1), []) };
}

/** The time, once a second: for what says how long ago something was. */
export function useNow(everyMs = 1_000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
