// The records of a world as far as they were looked at: pages around what is shown, and those that come while one watches.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, events, Refusal, type JournalRecord, type Page } from '../../api/client';
import { follows, tell, timeOf } from '../../lib/records';
import { milliseconds } from '../../lib/time';

const PAGE = 200;
const PAGES_MAX = 100;

/** An intent as far as its records were seen. */
export interface Joined {
  asked?: number;
  answered?: number;
  status?: string;
  withdrawn?: number;
}

export class Journal {
  private pages = new Map<number, (JournalRecord | undefined)[]>();
  private wanted = new Set<number>();
  private abort = new AbortController();
  readonly joined = new Map<string, Joined>();
  error?: Refusal;

  constructor(
    private readonly place: { universe: string; world: string },
    private readonly changed: () => void,
  ) {}

  at(height: number): JournalRecord | undefined {
    return this.pages.get(Math.floor(height / PAGE))?.[height % PAGE];
  }

  /** Loads the pages that these heights lie on, if they are not there. */
  want(from: number, until: number, head: number) {
    for (let page = Math.floor(Math.max(0, from) / PAGE); page * PAGE < Math.min(until, head); page += 1) {
      if (!this.wanted.has(page)) void this.load(page, head);
    }
  }

  private async load(page: number, head: number) {
    this.wanted.add(page);
    const [first, end] = [page * PAGE, Math.min((page + 1) * PAGE, head)];
    try {
      for (let from = first; from < end; ) {
        const query = { from, limit: end - from };
        const found = await api.get<Page<JournalRecord>>('/v1/u/{universe}/worlds/{world}/journal', { path: this.place, query, signal: this.abort.signal });
        if (found.items.length === 0) break;
        found.items.forEach((record) => this.keep(record));
        from = found.items.at(-1)!.height + 1; // a page ends with a segment, too, or with an ancestor's journal
      }
      this.error = undefined;
    } catch (error) {
      this.wanted.delete(page);
      if (this.abort.signal.aborted) return;
      this.error = error as Refusal;
    }
    this.forget(page);
    this.changed();
  }

  /** A record that came while one watched. */
  keep(record: JournalRecord) {
    const page = Math.floor(record.height / PAGE);
    if (!this.pages.has(page)) this.pages.set(page, new Array(PAGE));
    this.pages.get(page)![record.height % PAGE] = record;
    const { intent } = tell(record);
    if (!intent) return;
    const joined = this.joined.get(intent) ?? {};
    if (record.type === 'intent') joined.asked = record.height;
    else if (record.type === 'cancel') joined.withdrawn = record.height;
    else [joined.answered, joined.status] = [record.height, record.input?.status ?? 'fired'];
    this.joined.set(intent, joined);
  }

  private forget(near: number) {
    if (this.pages.size <= PAGES_MAX) return;
    const farthest = [...this.pages.keys()].sort((a, b) => Math.abs(b - near) - Math.abs(a - near))[0]!;
    this.pages.delete(farthest);
    this.wanted.delete(farthest);
  }

  /** The record that caused the step that a height belongs to. */
  cause(height: number): number {
    let at = height;
    for (let record = this.at(at); record && follows(record) && at > 0; record = this.at(at)) at -= 1;
    return at;
  }

  /** The next height at which a world can go on: behind all that follows from the step of a record. */
  settled(height: number, head: number): number {
    let at = height + 1;
    for (let record = this.at(at); record && at < head && follows(record); record = this.at(at)) at += 1;
    return at;
  }

  /** When a record was written: what follows from an input has the input's time. */
  time(height: number): number | undefined {
    for (let at = height; at >= 0 && at > height - 64; at -= 1) {
      const record = this.at(at);
      if (!record) return undefined;
      const time = timeOf(record);
      if (time) return milliseconds(time);
    }
    return undefined;
  }

  end() {
    this.abort.abort();
  }
}

const RECONNECT_MS = 1_000;

/** A journal, and its head, which moves while records come. */
export function useJournal(universe: string, world: string, headKnown: number | undefined): { journal: Journal; head: number; isLive: boolean } {
  const [, redraw] = useState(0);
  const [head, setHead] = useState(0);
  const [isLive, setLive] = useState(false);
  const changed = useRef(() => {});
  changed.current = () => redraw((turn) => turn + 1);
  const [journal] = useState(() => new Journal({ universe, world }, () => changed.current()));
  useEffect(() => () => journal.end(), []);
  useEffect(() => {
    if (headKnown !== undefined) setHead((before) => Math.max(before, headKnown));
  }, [headKnown]);

  const begins = headKnown !== undefined;
  useEffect(() => {
    if (!begins) return;
    const abort = new AbortController();
    let next = headKnown;
    let scheduled = false;
    const flush = () => {
      scheduled = false;
      setHead((before) => Math.max(before, next));
      redraw((turn) => turn + 1);
    };
    const follow = async () => {
      while (!abort.signal.aborted) {
        try {
          const asked = { path: { universe, world }, query: { from: next }, signal: abort.signal };
          const stream = events('/v1/u/{universe}/worlds/{world}/journal', asked);
          setLive(true);
          for await (const event of stream) {
            const record = JSON.parse(event.data) as JournalRecord;
            journal.keep(record);
            next = Math.max(next, record.height + 1);
            if (!scheduled) {
              scheduled = true;
              setTimeout(flush, 50);
            }
          }
        } catch {
          setLive(false);
        }
        await new Promise((wake) => setTimeout(wake, RECONNECT_MS));
      }
    };
    void follow();
    return () => abort.abort();
  }, [begins]);
  return { journal, head, isLive };
}
