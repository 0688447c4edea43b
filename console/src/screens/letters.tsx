// Dead letters: what a queue gave up on, with cause and content; replay or drop one, many, or all.
import { useState } from 'preact/hooks';
import { api, type Letter, type Page } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { refine, type Route } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { count } from '../lib/text';
import { Confirm, Copy, Empty, Loading, Problem, Time, type Action } from '../ui/basics';
import { Value } from '../ui/json';
import { toast } from '../ui/toast';
import { WorldLink } from '../ui/world-link';
import { Pager, usePages } from './effects';

const QUEUES = ['effects', 'timers', 'mailboxes', 'inboxes'];
/** Letters for each request of a long run, so that progress can be seen. */
const BATCH = 20;

/** Requests of a run over a whole queue, each of up to 1,000 letters: some come back as fast as they are replayed. */
const ROUNDS_MAX = 100;

interface Done {
  done: number;
  refused: string[];
  more?: boolean;
}

const DONE = { replay: 'replayed', drop: 'dropped' };
const MEANING = {
  replay: 'They go back to their queue and are tried again, with a new budget of attempts.',
  drop: 'They are forgotten for good. A world that waits for the receipt of such an effect goes on waiting: answer it by hand in that case.',
};

export function DeadLetters({ route }: { route: Route }) {
  const { universe } = useSession();
  const may = useMay();
  const get = (name: string) => route.query.get(name) ?? '';
  const [queue, world] = [get('queue'), get('world')];
  const [after, setAfter] = usePages([universe, queue, world]);
  const query = { queue, world, after: after.at(-1), limit: 100 };
  const found = useLoad((signal) => api.get<Page<Letter>>('/v1/u/{universe}/dead-letters', { path: { universe }, query, signal }), [universe, query], 5_000);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [open, setOpen] = useState<string>();
  const [action, setAction] = useState<Action>();
  const [progress, setProgress] = useState<[number, number]>();
  const items = found.value?.items ?? [];
  const isPart = after.length > 0 || Boolean(found.value?.next);
  const toggle = (letter: string) => {
    const next = new Set(chosen);
    if (!next.delete(letter)) next.add(letter);
    setChosen(next);
  };
  const run = async (verb: 'replay' | 'drop', letters: string[]) => {
    const all: Done = { done: 0, refused: [] };
    try {
      for (let at = 0; at < letters.length; at += BATCH) {
        setProgress([at, letters.length]);
        const body = { action: verb, letters: letters.slice(at, at + BATCH) };
        const part = await api.post<Done>('/v1/u/{universe}/dead-letters', { path: { universe }, body });
        all.done += part.done;
        all.refused.push(...part.refused);
      }
    } finally {
      setProgress(undefined);
    }
    ended(verb, all);
  };
  const ended = (verb: 'replay' | 'drop', { done, refused }: Done) => {
    toast(`${count(done, 'letter')} ${DONE[verb]}${refused.length > 0 ? `, ${refused.length} refused: ${refused[0]}` : ''}`);
    setChosen(new Set());
    found.reload();
  };
  /** All letters of a queue, however many pages they fill. */
  const runQueue = async (verb: 'replay' | 'drop') => {
    const all: Done = { done: 0, refused: [] };
    try {
      for (let round = 0; round < ROUNDS_MAX; round += 1) {
        const part = await api.post<Done>('/v1/u/{universe}/dead-letters', { path: { universe }, body: { action: verb, ...ofQueue } });
        all.done += part.done;
        all.refused = part.refused;
        if (!part.more || part.done === 0) break;
        toast(`${count(all.done, 'letter')} ${DONE[verb]}…`);
      }
    } finally {
      ended(verb, all);
    }
  };
  const ofQueue = { queue, world: world || undefined };
  const actQueue = (verb: 'replay' | 'drop'): Action => ({
    label: verb === 'replay' ? 'Replay all' : 'Drop all',
    title: `${verb === 'replay' ? 'Replay' : 'Drop'} all dead letters of ${queue}${world ? ` for ${world}` : ''}`,
    danger: verb === 'drop',
    consequence: (
      <>
        <p>{MEANING[verb]}</p>
        <p>These are all letters of the queue “{queue}”{world ? ` for the world ${world}` : ''}, also those on other pages.</p>
      </>
    ),
    command: command(universe, ['dead-letter', verb, '--queue', queue, ...(world ? ['--world', world] : [])], 'POST', '/v1/u/{universe}/dead-letters', { path: { universe }, body: { action: verb, ...ofQueue } }),
    run: () => runQueue(verb),
  });
  const act = (verb: 'replay' | 'drop', letters: string[]): Action => ({
    label: verb === 'replay' ? 'Replay' : 'Drop',
    title: `${verb === 'replay' ? 'Replay' : 'Drop'} ${count(letters.length, 'dead letter')}`,
    danger: verb === 'drop',
    consequence: <p>{MEANING[verb]}</p>,
    command: command(universe, ['dead-letter', verb, ...letters], 'POST', '/v1/u/{universe}/dead-letters', { path: { universe }, body: { action: verb, letters } }),
    run: () => run(verb, letters),
  });
  return (
    <div>
      <header class="screen-head">
        <h1>Dead letters</h1>
        <span class="mute">what a queue gave up on</span>
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <select aria-label="Queue" value={queue} onChange={(event) => refine({ queue: event.currentTarget.value })}>
          <option value="">All queues</option>
          {QUEUES.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
        <input type="search" placeholder="World" aria-label="Only those of this world" value={world} onChange={(event) => refine({ world: event.currentTarget.value })} />
        {may('admin') && items.length > 0 && (
          <button type="button" onClick={() => setChosen(chosen.size === items.length ? new Set() : new Set(items.map((it) => it.letter)))}>
            {chosen.size === items.length ? 'Select none' : `Select all ${items.length}${isPart ? ' of this page' : ''}`}
          </button>
        )}
        {may('admin') && items.length > 0 && queue && (
          <>
            <button type="button" onClick={() => setAction(actQueue('replay'))}>
              Replay all of {queue}…
            </button>
            <button type="button" class="danger-quiet" onClick={() => setAction(actQueue('drop'))}>
              Drop all of {queue}…
            </button>
          </>
        )}
        {may('admin') && isPart && !queue && <span class="mute">Choose a queue to replay all of its letters at once.</span>}
      </div>
      {chosen.size > 0 && (
        <div class="bulk" role="group" aria-label="What to do with the selected letters">
          <strong>{chosen.size} selected</strong>
          <button type="button" class="primary" onClick={() => setAction(act('replay', [...chosen]))}>
            Replay
          </button>
          <button type="button" class="danger-quiet" onClick={() => setAction(act('drop', [...chosen]))}>
            Drop
          </button>
        </div>
      )}
      {progress && <progress value={progress[0]} max={progress[1]} aria-label="Progress" />}
      {found.error && <Problem error={found.error} />}
      {!found.value && !found.error && <Loading what="dead letters" />}
      {found.value && items.length === 0 && <Empty title="No dead letters">Nothing was given up on. Effects that fail are tried again with growing pauses; what still fails then lands here.</Empty>}
      <ul class="letters">
        {items.map((letter) => (
          <li key={letter.letter} class="panel">
            <div class="letter">
              {may('admin') && <input type="checkbox" aria-label={`Select ${letter.letter}`} checked={chosen.has(letter.letter)} onChange={() => toggle(letter.letter)} />}
              <button type="button" class="link" aria-expanded={open === letter.letter} onClick={() => setOpen(open === letter.letter ? undefined : letter.letter)}>
                <strong>{letter.code}</strong>
              </button>
              <span class="grow">{letter.reason}</span>
              {letter.world && <WorldLink id={letter.world} name={letter.world_name ?? null} />}
              <span class="mute">
                {letter.letter.split('.')[0]} · {count(letter.attempts, 'attempt')} · <Time at={letter.at} />
              </span>
              <Copy text={letter.letter} />
              {may('admin') && (
                <button type="button" onClick={() => setAction(act('replay', [letter.letter]))}>
                  Replay
                </button>
              )}
            </div>
            {open === letter.letter && <Value value={letter.item} />}
          </li>
        ))}
      </ul>
      <Pager after={after} next={found.value?.next} change={setAfter} />
      {action && <Confirm action={action} close={() => setAction(undefined)} />}
    </div>
  );
}
