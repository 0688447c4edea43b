// Fork a world: from which height, under which name, with which policy for effects, and with what changed.
import { useLayoutEffect, useState } from 'preact/hooks';
import { api, Refusal, type Fork, type FunctionAwait, type FunctionDescription, type JournalRecord, type Page, type Program, type WorldDetails } from '../api/client';
import { useLoad } from '../api/use';
import { both, command } from '../lib/commands';
import { tell } from '../lib/records';
import { go, to, type Route } from '../lib/route';
import { useSession } from '../lib/session';
import { Commands, Empty, Field, Loading, Problem } from '../ui/basics';
import { JsonField } from '../ui/form';
import { Answers, type Answer } from './answers';

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

/** An await that the fork begins before the end of: `order/1042/2`. */
interface AwaitOf {
  instance: string;
  number: number;
  /** Absent if the instance has none of this number. */
  it?: FunctionAwait;
}

type Ending = 'open' | 'ok' | 'error';

function useAwait(universe: string, world: string, named: string | null) {
  return useLoad(
    async (signal): Promise<AwaitOf | undefined> => {
      if (named === null) return undefined;
      const cut = named.lastIndexOf('/');
      const [instance, number] = [named.slice(0, cut), Number(named.slice(cut + 1))];
      const found = await api.get<FunctionDescription>('/v1/u/{universe}/worlds/{world}/functions/{instance}', { path: { universe, world, instance }, signal });
      return { instance, number, it: found.log.find((it) => it.number === number) };
    },
    [universe, world, named],
  );
}

function Form({ world, route, details, programs }: { world: string; route: Route; details: WorldDetails; programs: Program[] }) {
  const { universe } = useSession();
  const head = details.head ?? 0;
  const [chosenAt, setAt] = useState(Math.min(head, Number(route.query.get('at') ?? head)));
  const atAwait = route.query.get('await');
  const awaited = useAwait(universe, world, atAwait);
  const at = atAwait === null ? chosenAt : (awaited.value?.it?.ended_at ?? head);
  const [ending, setEnding] = useState<Ending>('ok');
  const [result, setResult] = useState<{ value: unknown; problem?: string }>({ value: null });
  const [failure, setFailure] = useState({ code: '', reason: '' });
  const [name, setName] = useState('');
  const [policy, setPolicy] = useState(details.effects === 'sandbox' ? 'sandbox' : 'suppress');
  const [program, setProgram] = useState('');
  const [answers, setAnswers] = useState<Answer[]>([]);
  const [answersProblem, setAnswersProblem] = useState<string>();
  const eventAt = route.query.get('event');
  const [error, setError] = useState<Refusal>();
  const [busy, setBusy] = useState(false);

  const before = useLoad((signal) => records(universe, world, Math.max(0, at - 6), signal), [universe, world, at]);
  const event = useLoad(async (signal) => (eventAt === null ? undefined : (await records(universe, world, Number(eventAt), signal, 1))[0]), [universe, world, eventAt]);
  const [edited, setEdited] = useState<{ value: unknown; problem?: string }>();
  useLayoutEffect(() => {
    if (event.value) setEdited({ value: event.value.input?.value });
  }, [event.value]);
  useLayoutEffect(() => {
    const found = awaited.value?.it;
    if (!found) return;
    const failed = found.value as { code?: string; reason?: string; message?: string } | null;
    if (found.state === 'error') setFailure({ code: failed?.code ?? '', reason: failed?.reason ?? failed?.message ?? '' });
    else setResult({ value: found.value ?? null });
    if (found.state === 'error') setEnding('error');
  }, [awaited.value]);

  const body = {
    world: name || undefined,
    at: atAwait === null ? at : undefined,
    at_await: atAwait ?? undefined,
    with: atAwait !== null && ending === 'ok' ? result.value : undefined,
    with_error: atAwait !== null && ending === 'error' ? { code: failure.code, reason: failure.reason } : undefined,
    effects: policy,
    program: program || undefined,
    answers: policy === 'sandbox' && answers.length > 0 ? answers : undefined,
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
  const withError = failure.reason ? `${failure.code}: ${failure.reason}` : failure.code;
  const ofAwait = atAwait === null ? ['--at', at] : ['--at-await', atAwait, ...(ending === 'ok' ? ['--with', JSON.stringify(result.value)] : ending === 'error' ? ['--with-error', withError] : [])];
  // The command line reads answers from a file.
  const words = ['world', 'fork', world, name, ...ofAwait, '--effects', policy, ...(program ? ['--program', program] : []), ...(body.answers ? ['--answers', 'answers.json'] : [])];
  const made = command(universe, words, 'POST', '/v1/u/{universe}/worlds/{world}/fork', { path: { universe, world }, body });
  const child = name || 'FORK';
  const sent = event.value && edited && command(universe, ['world', 'send', child, event.value.input.event, JSON.stringify(edited.value)], 'POST', '/v1/u/{universe}/worlds/{world}/send/{event}', { path: { universe, world: child, event: event.value.input.event }, body: edited.value });
  const isIncomplete = edited?.problem !== undefined || answersProblem !== undefined || (atAwait !== null && (!awaited.value?.it || (ending === 'ok' && result.problem !== undefined) || (ending === 'error' && !failure.code)));
  return (
    <form class="fork" onSubmit={fork}>
      <header class="screen-head">
        <h1>Fork {details.name ?? world}</h1>
      </header>
      <p class="prose">A fork is a new world with the same past up to a height, and a future of its own. The parent is only read, and goes on as if nothing had happened.</p>
      <div class="fork-columns">
        <section>
          <h2>1. Where it branches</h2>
          {atAwait !== null && <AwaitHead named={atAwait} found={awaited.value} head={head} />}
          {awaited.error && <Problem error={awaited.error} />}
          {atAwait === null && <Field label="Height" hint={`The fork shares the records 0 to ${at - 1}; its own begin at ${at}. The parent’s newest record is ${head - 1}.`}>
            <input type="number" min={1} max={head} value={at} onChange={(changed) => setAt(Math.max(1, Math.min(head, Number(changed.currentTarget.value))))} />
          </Field>}
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
          <h2>3. What is different{atAwait === null ? ' (optional)' : ''}</h2>
          {atAwait !== null && (
            <>
              <fieldset class="policies endings">
                <legend>How the await ends in the fork</legend>
                {ENDINGS.map(([value, title]) => (
                  <label key={value} class="check">
                    <input type="radio" name="ending" value={value} checked={ending === value} onChange={() => setEnding(value)} /> {title}
                  </label>
                ))}
              </fieldset>
              {ending === 'ok' && <JsonField label="Result of the await (JSON)" value={result.value} rows={6} change={(value, problem) => setResult({ value, problem })} />}
              {ending === 'error' && (
                <>
                  <Field label="Code of the error" hint="What the function reads as its code, such as CARD_REFUSED.">
                    <input type="text" value={failure.code} onInput={(changed) => setFailure({ ...failure, code: changed.currentTarget.value.trim() })} />
                  </Field>
                  <Field label="Reason (optional)">
                    <input type="text" value={failure.reason} onInput={(changed) => setFailure({ ...failure, reason: changed.currentTarget.value })} />
                  </Field>
                </>
              )}
            </>
          )}
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
          {policy === 'sandbox' && <Answers of={answers} change={(given, problem) => (setAnswers(given), setAnswersProblem(problem))} />}
        </section>
      </div>
      {error && <Problem error={error} />}
      <footer class="fork-end">
        <button type="submit" class="primary" disabled={busy || isIncomplete}>
          {busy ? 'Forking…' : event.value ? 'Fork and send the edited event' : atAwait !== null && ending !== 'open' ? 'Fork with this answer' : 'Fork'}
        </button>
        <a class="button" href={to(['u', universe, 'worlds', world], { at: Math.max(0, at - 1) })}>
          Back to the world
        </a>
        <span class="mute">Next you see both worlds side by side.</span>
      </footer>
      <Commands of={sent ? both(made, sent) : made} />
      {body.answers && <p class="mute">The mundi command reads the answers from answers.json: <code>{JSON.stringify(body.answers)}</code></p>}
      {before.error && <Empty title={before.error.message} />}
    </form>
  );
}

const ENDINGS: [ending: Ending, title: string][] = [
  ['ok', 'with this result'],
  ['error', 'with this error'],
  ['open', 'not yet: the fork waits for it'],
];

function AwaitHead({ named, found, head }: { named: string; found?: AwaitOf; head: number }) {
  if (!found) return <Loading what={named} />;
  const { instance, number, it } = found;
  if (!it) return <Empty title={`${instance} has no await ${number}`} />;
  const at = it.ended_at ?? head;
  return (
    <p>
      Before await {number} of <strong>{instance}</strong> ends: {it.kind} <strong>{it.name}</strong>. The fork shares the records 0 to {at - 1}, and has not seen its result
      {it.ended_at === null || it.ended_at === undefined ? ', which has not come here yet' : ''}.
    </p>
  );
}

async function records(universe: string, world: string, from: number, signal: AbortSignal, limit = 6): Promise<JournalRecord[]> {
  const page = await api.get<Page<JournalRecord>>('/v1/u/{universe}/worlds/{world}/journal', { path: { universe, world }, query: { from, limit }, signal });
  return page.items;
}
