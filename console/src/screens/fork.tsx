// Fork a world: from which height, under which name, with which policy for effects, and with what changed.
import { useLayoutEffect, useState } from 'preact/hooks';
import { api, Refusal, type Fork, type JournalRecord, type Page, type Program, type WorldDetails } from '../api/client';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { tell } from '../lib/records';
import { go, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { Commands, Empty, Field, Loading, Problem } from '../ui/basics';
import { JsonField } from '../ui/form';

/** What becomes of effects, in words. */
const POLICIES: [name: string, title: string, meaning: string][] = [
  ['suppress', 'Suppress', 'What the parent was waiting for is answered with “cancelled”, so nothing is done twice. New effects of the fork are carried out. The default.'],
  ['sandbox', 'Sandbox', 'Nothing ever leaves the fork. Effects get the parent’s receipts, then answers that you script, then an error. For “what if”.'],
  ['recorded', 'Recorded', 'Effects get the parent’s receipts as long as the fork asks for the same. The first difference stops it. For “does it still do the same”.'],
  ['recorded-then-live', 'Recorded, then live', 'Effects get the parent’s receipts as long as the fork asks for the same; from the first difference on they are carried out.'],
  ['live', 'Live', 'What the parent was waiting for is carried out again, under the fork’s own name, and so is everything new. The outside may see it twice.'],
];

export function ForkScreen({ world, route }: { world: string; route: Route }) {
  const { universe } = useSession();
  const path = { universe, world };
  const details = useLoad((signal) => api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path, signal }), [universe, world]);
  const programs = useLoad((signal) => api.get<Program[]>('/v1/u/{universe}/programs', { path, signal }), [universe]);
  if (details.error) return <Problem error={details.error} retry={details.reload} />;
  if (!details.value) return <Loading what={world} />;
  return <Form world={world} route={route} details={details.value} programs={programs.value ?? []} />;
}

function Form({ world, route, details, programs }: { world: string; route: Route; details: WorldDetails; programs: Program[] }) {
  const { universe } = useSession();
  const head = details.head ?? 0;
  const [at, setAt] = useState(Math.min(head, Number(route.query.get('at') ?? head)));
  const [name, setName] = useState('');
  const [policy, setPolicy] = useState(details.effects === 'sandbox' ? 'sandbox' : 'suppress');
  const [program, setProgram] = useState('');
  const [answers, setAnswers] = useState<unknown>([]);
  const eventAt = route.query.get('event');
  const [error, setError] = useState<Refusal>();
  const [busy, setBusy] = useState(false);

  const before = useLoad((signal) => records(universe, world, Math.max(0, at - 6), signal), [universe, world, at]);
  const event = useLoad(async (signal) => (eventAt === null ? undefined : (await records(universe, world, Number(eventAt), signal, 1))[0]), [universe, world, eventAt]);
  const [edited, setEdited] = useState<{ value: unknown; problem?: string }>();
  useLayoutEffect(() => {
    if (event.value) setEdited({ value: event.value.input?.value });
  }, [event.value]);

  const body = {
    world: name || undefined,
    at,
    effects: policy,
    program: program || undefined,
    answers: policy === 'sandbox' && Array.isArray(answers) && answers.length > 0 ? answers : undefined,
  };
  const fork = async (submitted: Event) => {
    submitted.preventDefault();
    setBusy(true);
    try {
      const made = await api.post<Fork>('/v1/u/{universe}/worlds/{world}/fork', { path: { universe, world }, body });
      const child = name || made.world;
      if (event.value && edited) {
        await api.post('/v1/u/{universe}/worlds/{world}/send/{event}', { path: { universe, world: child, event: event.value.input.event }, body: edited.value });
      }
      go(to(['u', universe, 'compare'], { left: world, right: child, from: made.forked_at }));
    } catch (refusal) {
      setError(refusal as Refusal);
      setBusy(false);
    }
  };
  const words = ['world', 'fork', world, name, '--at', at, '--effects', policy, ...(program ? ['--program', program] : [])];
  return (
    <form class="fork" onSubmit={fork}>
      <header class="screen-head">
        <h1>Fork {details.name ?? world}</h1>
      </header>
      <p class="prose">A fork is a new world with the same past up to a height, and a future of its own. The parent is only read, and goes on as if nothing had happened.</p>
      <div class="fork-columns">
        <section>
          <h2>1. Where it branches</h2>
          <Field label="Height" hint={`The fork shares the records 0 to ${at - 1}; its own begin at ${at}. The parent’s newest record is ${head - 1}.`}>
            <input type="number" min={1} max={head} value={at} onChange={(changed) => setAt(Math.max(1, Math.min(head, Number(changed.currentTarget.value))))} />
          </Field>
          <span class="field-label">The last records that both will share</span>
          <ol class="shared">
            {(before.value ?? [])
              .filter((record) => record.height < at && record.type !== 'outcome_digest')
              .map((record) => (
                <li key={record.height}>
                  <span class="height">{record.height}</span> <strong>{tell(record).title}</strong> <span class="mute">{tell(record).detail}</span>
                </li>
              ))}
          </ol>
          <h2>2. What it is called</h2>
          <Field label="Name" hint={`A free one such as ${details.name ?? 'world'}-fork-1 if you leave it empty.`}>
            <input type="text" value={name} placeholder={`${details.name ?? 'world'}-what-if`} onInput={(changed) => setName(changed.currentTarget.value)} />
          </Field>
          <h2>3. What is different (optional)</h2>
          {event.value && edited && (
            <>
              <p>
                The fork begins before <strong>{tell(event.value).title}</strong> at height {event.value.height}. This is sent to it in place of that event:
              </p>
              <JsonField label={`Value of ${event.value.input?.event} (JSON)`} value={edited.value} rows={6} change={(value, problem) => setEdited({ value, problem })} />
            </>
          )}
          <Field label="Program" hint="From its first own input on, the fork may run another program.">
            <select value={program} onChange={(changed) => setProgram(changed.currentTarget.value)}>
              <option value="">The same: {details.program ?? details.manifest?.slice(0, 14)}</option>
              {programs.flatMap((it) => it.versions.map((version) => <option key={version.name}>{version.name}</option>))}
            </select>
          </Field>
        </section>
        <section>
          <h2>4. What becomes of its effects</h2>
          <fieldset class="policies">
            <legend class="sr">Effect policy</legend>
            {POLICIES.map(([value, title, meaning]) => (
              <label key={value} class={`policy ${policy === value ? 'on' : ''}`}>
                <input type="radio" name="policy" value={value} checked={policy === value} onChange={() => setPolicy(value)} />
                <span>
                  <strong>{title}</strong>
                  <span class="hint">{meaning}</span>
                </span>
              </label>
            ))}
          </fieldset>
          {policy === 'sandbox' && (
            <JsonField label='Scripted answers (JSON): [{"kind": "http.request", "status": "ok", "payload": {}}]' value={answers} rows={5} change={setAnswers} />
          )}
        </section>
      </div>
      {error && <Problem error={error} />}
      <footer class="fork-end">
        <button type="submit" class="primary" disabled={busy || edited?.problem !== undefined}>
          {busy ? 'Forking…' : event.value ? 'Fork and send the edited event' : 'Fork'}
        </button>
        <a class="button" href={to(['u', universe, 'worlds', world], { at: Math.max(0, at - 1) })}>
          Back to the world
        </a>
        <span class="mute">Next you see both worlds side by side.</span>
      </footer>
      <Commands of={command(universe, words, 'POST', '/v1/u/{universe}/worlds/{world}/fork', { path: { universe, world }, body })} />
      {before.error && <Empty title={before.error.message} />}
    </form>
  );
}

async function records(universe: string, world: string, from: number, signal: AbortSignal, limit = 6): Promise<JournalRecord[]> {
  const page = await api.get<Page<JournalRecord>>('/v1/u/{universe}/worlds/{world}/journal', { path: { universe, world }, query: { from, limit }, signal });
  return page.items;
}
