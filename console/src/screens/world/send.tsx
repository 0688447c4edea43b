// Send an event or call with it, and ask a query: forms that are made from the program's manifest.
import { useLayoutEffect, useState } from 'preact/hooks';
import { api, Refusal } from '../../api/client';
import { useLoad } from '../../api/use';
import { command } from '../../lib/commands';
import { Commands, Empty, Field, Loading, Problem } from '../../ui/basics';
import { example, SchemaForm, type Schema } from '../../ui/form';
import { Value } from '../../ui/json';

interface Manifest {
  events?: Record<string, Schema>;
  queries?: Record<string, Schema>;
}

function useManifest(universe: string, manifest: string | null | undefined) {
  return useLoad(
    async (signal) => (manifest ? api.get<Manifest>('/v1/u/{universe}/manifests/{manifest}', { path: { universe, manifest }, signal }) : undefined),
    [universe, manifest],
  );
}

type Answer = { value?: unknown; error?: Refusal; busy?: boolean };

export function SendPanel({ universe, world, manifest, done }: { universe: string; world: string; manifest?: string | null; done: () => void }) {
  const found = useManifest(universe, manifest);
  const names = Object.keys(found.value?.events ?? {});
  const [name, setName] = useState<string>();
  const [value, setValue] = useState<unknown>(null);
  const [problem, setProblem] = useState<string>();
  const [answer, setAnswer] = useState<Answer>({});
  const chosen = name ?? names[0];
  const schema = chosen === undefined ? undefined : found.value?.events?.[chosen];
  // Before the form can be typed into: what is typed must not be overwritten.
  useLayoutEffect(() => {
    setValue(example(schema));
    setProblem(undefined);
  }, [chosen, manifest, found.value]);
  if (found.error) return <Problem error={found.error} />;
  if (!found.value) return <Loading what="the manifest" />;
  if (chosen === undefined) return <Empty title="This program declares no events" />;
  const asked = { path: { universe, world, event: chosen }, body: value };
  const run = async (verb: 'send' | 'call') => {
    setAnswer({ busy: true });
    try {
      const template = verb === 'send' ? '/v1/u/{universe}/worlds/{world}/send/{event}' : '/v1/u/{universe}/worlds/{world}/call/{event}';
      setAnswer({ value: await api.post<unknown>(template, asked) });
      done();
    } catch (error) {
      setAnswer({ error: error as Refusal });
    }
  };
  return (
    <form onSubmit={(event) => (event.preventDefault(), void run('call'))}>
      <Choice label="Event" names={names} chosen={chosen} choose={setName} />
      <SchemaForm key={chosen} schema={schema} value={value} change={(given, wrong) => (setValue(given), setProblem(wrong))} />
      <p class="row">
        <button type="submit" class="primary" disabled={answer.busy || problem !== undefined} title="Waits for the program’s reply">
          Call
        </button>
        <button type="button" disabled={answer.busy || problem !== undefined} title="Durable when it returns; waits for nothing else" onClick={() => run('send')}>
          Send
        </button>
        <span class="mute">{answer.busy ? 'Waiting for the reply…' : 'A call waits for the reply; a send does not.'}</span>
      </p>
      <Shown answer={answer} />
      <Commands title="The call as a command" of={command(universe, ['world', 'call', world, chosen, JSON.stringify(value)], 'POST', '/v1/u/{universe}/worlds/{world}/call/{event}', asked)} />
      <Commands title="The send as a command" of={command(universe, ['world', 'send', world, chosen, JSON.stringify(value)], 'POST', '/v1/u/{universe}/worlds/{world}/send/{event}', asked)} />
    </form>
  );
}

export function QueryPanel({ universe, world, manifest, height, isNewest }: { universe: string; world: string; manifest?: string | null; height: number; isNewest: boolean }) {
  const found = useManifest(universe, manifest);
  const names = Object.keys(found.value?.queries ?? {});
  const [name, setName] = useState<string>();
  const [value, setValue] = useState<unknown>(null);
  const [answer, setAnswer] = useState<Answer & { at?: number }>({});
  const chosen = name ?? names[0];
  const schema = chosen === undefined ? undefined : found.value?.queries?.[chosen];
  useLayoutEffect(() => setValue(example(schema)), [chosen, manifest, found.value]);
  if (found.error) return <Problem error={found.error} />;
  if (!found.value) return <Loading what="the manifest" />;
  if (chosen === undefined) return <Empty title="This program declares no queries" />;
  const at = isNewest ? undefined : height + 1;
  const asked = { path: { universe, world, query: chosen }, query: { at }, body: value };
  const run = async (event: Event) => {
    event.preventDefault();
    setAnswer({ busy: true });
    try {
      setAnswer({ value: await api.post<unknown>('/v1/u/{universe}/worlds/{world}/query/{query}', asked), at: height });
    } catch (error) {
      setAnswer({ error: error as Refusal });
    }
  };
  return (
    <form onSubmit={run}>
      <Choice label="Query" names={names} chosen={chosen} choose={setName} />
      <SchemaForm key={chosen} schema={schema} value={value} change={(given) => setValue(given)} />
      <p class="row">
        <button type="submit" class="primary" disabled={answer.busy}>
          Ask
        </button>
        <span class="mute">{isNewest ? 'of the world as it is now' : `of the world as it was after record ${height}`}; a query changes nothing</span>
      </p>
      {answer.at !== undefined && <p class="mute">The answer at height {answer.at}:</p>}
      <Shown answer={answer} />
      <Commands of={command(universe, ['world', 'query', world, chosen, JSON.stringify(value), ...(at === undefined ? [] : ['--at', at])], 'POST', '/v1/u/{universe}/worlds/{world}/query/{query}', asked)} />
    </form>
  );
}

function Choice({ label, names, chosen, choose }: { label: string; names: string[]; chosen: string; choose: (name: string) => void }) {
  return (
    <Field label={label}>
      <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </Field>
  );
}

function Shown({ answer }: { answer: Answer }) {
  return (
    <div class="answer" aria-live="polite">
      {answer.error && <Problem error={answer.error} />}
      {answer.value !== undefined && <Value value={answer.value} />}
    </div>
  );
}
