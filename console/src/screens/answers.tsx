// The answers that a sandbox gives to effects for which its parent has no receipt: one row each, or JSON for what a row cannot say.
import { useState } from 'preact/hooks';
import { parsed } from '../lib/text';
import { Field } from '../ui/basics';
import { JsonField } from '../ui/form';

export interface Answer {
  kind: string;
  /** Only for the effect of this number since the fork. */
  nth?: number;
  params?: unknown;
  status?: string;
  payload?: unknown;
}

interface Props {
  of: Answer[];
  change: (answers: Answer[], problem?: string) => void;
}

export function Answers({ of, change }: Props) {
  const [asJson, setAsJson] = useState(false);
  const [problems, setProblems] = useState<Record<number, string | undefined>>({});
  const set = (next: Answer[], wrong: Record<number, string | undefined>) => {
    setProblems(wrong);
    const nameless = next.some((it) => !it.kind) ? 'An answer has no kind.' : undefined;
    change(next, Object.values(wrong).find(Boolean) ?? nameless);
  };
  const put = (index: number, changed: Partial<Answer>, problem?: string) => set(of.map((it, at) => (at === index ? { ...it, ...changed } : it)), { ...problems, [index]: problem });
  return (
    <section class="answers" aria-label="Scripted answers">
      <p class="row">
        <span class="field-label">Scripted answers</span>
        <button type="button" class="link" onClick={() => setAsJson(!asJson)}>
          {asJson ? 'Fill in a form' : 'Write JSON'}
        </button>
      </p>
      <p class="hint">The first that fits answers an effect for which the parent has no receipt, as often as it fits. Without one, the effect fails.</p>
      {asJson ? (
        <JsonField label="Answers (JSON)" value={of} rows={6} change={(value, problem) => change(Array.isArray(value) ? (value as Answer[]) : of, problem ?? (Array.isArray(value) ? undefined : 'Answers are an array.'))} />
      ) : (
        <>
          <ul class="cards">
            {of.map((answer, index) => (
              <li key={`${of.length} ${index}`}>
                <One answer={answer} change={(changed, problem) => put(index, changed, problem)} />
                <button type="button" onClick={() => set(of.filter((_, at) => at !== index), {})}>
                  Remove this answer
                </button>
              </li>
            ))}
          </ul>
          <button type="button" onClick={() => set([...of, { kind: '', status: 'ok', payload: null }], problems)}>
            Add an answer
          </button>
        </>
      )}
    </section>
  );
}

function One({ answer, change }: { answer: Answer; change: (changed: Partial<Answer>, problem?: string) => void }) {
  const [text, setText] = useState(JSON.stringify(answer.payload ?? null));
  const payload = parsed(text);
  return (
    <div class="inline">
      <Field label="Kind of the effect">
        <input type="text" placeholder="http.request" value={answer.kind} onInput={(event) => change({ kind: event.currentTarget.value.trim() }, payload.problem)} />
      </Field>
      <Field label="Status">
        <select value={answer.status ?? 'ok'} onChange={(event) => change({ status: event.currentTarget.value }, payload.problem)}>
          <option value="ok">ok: it was done</option>
          <option value="error">error: it failed</option>
          <option value="timeout">timeout: nobody knows</option>
        </select>
      </Field>
      <Field label="Only the effect number" hint="Empty for each of this kind.">
        <input type="number" min={1} value={answer.nth ?? ''} onInput={(event) => change({ nth: event.currentTarget.value === '' ? undefined : Number(event.currentTarget.value) }, payload.problem)} />
      </Field>
      <Field label="Payload (JSON)" hint={payload.problem}>
        <textarea rows={2} spellcheck={false} value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            const read = parsed(event.currentTarget.value);
            change(read.problem ? {} : { payload: read.value }, read.problem);
          }} />
      </Field>
    </div>
  );
}
