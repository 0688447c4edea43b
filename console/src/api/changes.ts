// What changes in a universe, pushed by the server: screens look again when something changed, and not before.
import { useEffect, useRef, useState } from 'preact/hooks';
import { events } from './client';
import type { components } from './schema';

export type Change = 'worlds' | 'dead_letters' | 'workers' | 'timers';
/** An event of the stream: what changed, and which worlds. */
export type Changes = Omit<components['schemas']['Changes'], 'changed'> & { changed: Change[] };
type Listener = (changes: Changes) => void;

const EVERYTHING: Changes = { changed: ['worlds', 'dead_letters', 'workers', 'timers'], worlds: [], more_worlds: true };
const AGAIN_MS = 1_000;
/** Where the server refuses a stream, screens look again this often. */
const REFUSED_MS = 10_000;

/** One stream for all that listens, while the page is visible. Each stream begins with an event that names everything, so nothing is missed in between. */
class Stream {
  private listeners = new Set<Listener>();
  private abort?: AbortController;

  constructor(private universe: string) {}

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    if (this.listeners.size === 1) {
      document.addEventListener('visibilitychange', this.follow);
      this.follow();
    }
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      document.removeEventListener('visibilitychange', this.follow);
      this.abort?.abort();
      this.abort = undefined;
    };
  }

  private follow = () => {
    const isVisible = document.visibilityState === 'visible';
    if (!isVisible) this.abort?.abort();
    if (!isVisible) this.abort = undefined;
    else if (!this.abort) void this.read((this.abort = new AbortController()).signal);
  };

  private async read(signal: AbortSignal) {
    while (!signal.aborted) {
      let pause = AGAIN_MS;
      try {
        for await (const { data } of events('/v1/u/{universe}/events', { path: { universe: this.universe }, signal })) this.tell(JSON.parse(data) as Changes);
      } catch (error) {
        if (signal.aborted) return;
        if ((error as { status?: number }).status) {
          pause = REFUSED_MS;
          this.tell(EVERYTHING);
        }
      }
      await new Promise((wake) => setTimeout(wake, pause));
    }
  }

  private tell(changes: Changes) {
    this.listeners.forEach((listener) => listener(changes));
  }
}

const streams = new Map<string, Stream>();

/** Is told of every event. */
export function useEvents(universe: string, listener: Listener) {
  const newest = useRef(listener);
  newest.current = listener;
  useEffect(() => {
    const stream = streams.get(universe) ?? new Stream(universe);
    streams.set(universe, stream);
    return stream.listen((changes) => newest.current(changes));
  }, [universe]);
}

/** The same number, but it rises at most once in so long: for what costs the server much to count. The first change is followed at once. */
export function useCalm(version: number, everyMs: number): number {
  const [calm, set] = useState(version);
  const followed = useRef(0);
  useEffect(() => {
    if (version === calm) return;
    const follow = () => {
      followed.current = Date.now();
      set(version);
    };
    const timer = setTimeout(follow, Math.max(0, followed.current + everyMs - Date.now()));
    return () => clearTimeout(timer);
  }, [version, calm]);
  return calm;
}

/** A number that rises when something of these kinds changed. */
export function useChanges(universe: string, ...kinds: Change[]): number {
  const [version, set] = useState(0);
  useEvents(universe, ({ changed }) => kinds.some((kind) => changed.includes(kind)) && set((it) => it + 1));
  return version;
}
