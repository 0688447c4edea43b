// A command to all worlds that the filters of the table name, however many pages they fill: first what it would do, then with progress.
import { useRef, useState } from 'preact/hooks';
import { api, type BulkWorld, type Page, type Query, type Refusal, type WorldCount } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { useSession } from '../lib/session';
import { count, short } from '../lib/text';
import { Commands, Dialog, Field, Loading, Problem } from '../ui/basics';
import { toast } from '../ui/toast';
import { WORDS } from './world-actions';

const VERBS = ['pause', 'resume', 'archive', 'unarchive', 'delete'] as const;
type Verb = (typeof VERBS)[number];

/** Requests of a count, each of 20,000 looks. */
const COUNTS_MAX = 10;
const NAMED = 12;

interface Progress {
  done: number;
  refused: BulkWorld[];
  isOver?: boolean;
}

/** What a dry run says, and how many there are. */
async function dryRun(universe: string, filters: Query, verb: Verb, signal: AbortSignal) {
  const first = await api.post<Page<BulkWorld>>('/v1/u/{universe}/bulk', { path: { universe }, body: { verb, filters, dry_run: true, limit: NAMED }, signal });
  let total = 0;
  let after: string | null | undefined;
  for (let request = 0; request < COUNTS_MAX; request += 1) {
    const part: WorldCount = await api.get('/v1/u/{universe}/world-count', { path: { universe }, query: { ...filters, after }, signal });
    total += part.count;
    after = part.next;
    if (!after) break;
  }
  return { named: first.items, total, more: Boolean(after) };
}

export function BulkDialog({ filters, close }: { filters: Query; close: (done: boolean) => void }) {
  const { universe } = useSession();
  const given = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined)) as Query;
  const [verb, setVerb] = useState<Verb>('pause');
  const found = useLoad((signal) => dryRun(universe, given, verb, signal), [universe, given, verb]);
  const [progress, setProgress] = useState<Progress>();
  const [error, setError] = useState<Refusal>();
  const stopped = useRef(false);
  const { label, consequence, danger } = WORDS[verb];
  const total = found.value?.total ?? 0;
  const run = async () => {
    const now: Progress = { done: 0, refused: [] };
    setProgress(now);
    setError(undefined);
    let after: string | null = null;
    try {
      do {
        const body: Record<string, unknown> = { verb, filters: given, after: after ?? undefined };
        const page: Page<BulkWorld> = await api.post('/v1/u/{universe}/bulk', { path: { universe }, body });
        now.done += page.items.filter((it) => it.result === 'done').length;
        now.refused.push(...page.items.filter((it) => it.result === 'refused'));
        after = page.next;
        setProgress({ ...now });
      } while (after !== null && !stopped.current);
      toast(`${label}: ${count(now.done, 'world')}${now.refused.length > 0 ? `, ${now.refused.length} refused` : ''}`);
    } catch (refusal) {
      setError(refusal as Refusal);
    }
    setProgress({ ...now, isOver: true });
  };
  const end = () => {
    stopped.current = true;
    close(progress !== undefined);
  };
  const flags = Object.entries(given).flatMap(([name, value]) => (value === true ? [`--${name.replaceAll('_', '-')}`] : [`--${name.replace(/_s$/, '').replaceAll('_', '-')}`, String(value)]));
  const isSaid = given.failed !== false; // the command line has no flag for worlds without failures
  return (
    <Dialog title="All worlds that fit the filters" close={end}>
      <Field label="What to do">
        <select value={verb} disabled={progress !== undefined} onChange={(event) => setVerb(event.currentTarget.value as Verb)}>
          {VERBS.map((it) => (
            <option key={it} value={it}>
              {WORDS[it].label}
            </option>
          ))}
        </select>
      </Field>
      <p class="prose">{consequence}</p>
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="the worlds that fit" />}
      {found.value && (
        <p role="status">
          <strong>
            {count(total, 'world')}
            {found.value.more ? ' or more' : ''}
          </strong>{' '}
          <span class="mute">
            {found.value.named.map((it) => it.name ?? short(it.world)).join(', ')}
            {total > found.value.named.length ? `, and ${(total - found.value.named.length).toLocaleString('en-US')} more` : ''}
          </span>
        </p>
      )}
      {progress && (
        <>
          <progress value={progress.done + progress.refused.length} max={Math.max(total, progress.done + progress.refused.length, 1)} aria-label="Progress" />
          <p role="status">
            {count(progress.done, 'world')} done{progress.refused.length > 0 ? `, ${progress.refused.length} refused` : ''}
            {progress.isOver ? '.' : '…'}
          </p>
          {progress.refused.length > 0 && (
            <ul class="refused">
              {progress.refused.slice(0, NAMED).map((it) => (
                <li key={it.world}>
                  {it.name ?? short(it.world)}: <strong>{it.code}</strong> {it.detail}
                </li>
              ))}
              {progress.refused.length > NAMED && <li class="mute">and {progress.refused.length - NAMED} more</li>}
            </ul>
          )}
        </>
      )}
      {error && <Problem error={error} />}
      <footer>
        <button type="button" onClick={end}>
          {progress?.isOver ? 'Close' : progress ? 'Stop' : 'Cancel'}
        </button>
        {!progress && (
          <button type="button" class={danger ? 'danger' : 'primary'} disabled={!found.value || total === 0} onClick={run}>
            {label} {found.value ? count(total, 'world') : ''}
            {found.value?.more ? ' or more' : ''}
          </button>
        )}
      </footer>
      <Commands of={command(universe, isSaid ? ['world', verb, ...flags] : undefined, 'POST', '/v1/u/{universe}/bulk', { path: { universe }, body: { verb, filters: given } })} />
    </Dialog>
  );
}
