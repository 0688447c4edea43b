// A form for a value, made from its JSON Schema; and plain JSON for what a form cannot say.
import { useLayoutEffect, useState } from 'preact/hooks';
import { parsed } from '../lib/text';
import { Field } from './basics';

export type Schema = boolean | { [key: string]: any };

/** A value to begin with. */
export function example(schema: Schema | undefined): unknown {
  if (!schema || schema === true) return null;
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case 'object': {
      const required: string[] = schema.required ?? [];
      return Object.fromEntries(required.map((name) => [name, example(schema.properties?.[name])]));
    }
    case 'array':
      return [];
    case 'string':
      return '';
    case 'integer':
    case 'number':
      return schema.minimum ?? 0;
    case 'boolean':
      return false;
    default:
      return null;
  }
}

export function SchemaForm({ schema, value, change }: { schema: Schema | undefined; value: unknown; change: (value: unknown, problem?: string) => void }) {
  const isForm = typeof schema === 'object' && schema.type === 'object' && schema.properties;
  const [asJson, setAsJson] = useState(!isForm);
  return (
    <div class="schema-form">
      {isForm && (
        <p class="row">
          <button type="button" class="link" onClick={() => setAsJson(!asJson)}>
            {asJson ? 'Fill in a form' : 'Write JSON'}
          </button>
        </p>
      )}
      {isForm && !asJson ? <Fields schema={schema} value={(value ?? {}) as Record<string, unknown>} change={change} /> : <JsonField label={isForm || !simple(schema) ? 'Value (JSON)' : hintOf(schema)} value={value} change={change} />}
    </div>
  );
}

function simple(schema: Schema | undefined): schema is { [key: string]: any } {
  return typeof schema === 'object' && schema.type !== undefined;
}

function hintOf(schema: { [key: string]: any }): string {
  return `Value: ${[schema.type].flat().join(' or ')} (JSON)`;
}

function Fields({ schema, value, change }: { schema: { [key: string]: any }; value: Record<string, unknown>; change: (value: unknown, problem?: string) => void }) {
  const required: string[] = schema.required ?? [];
  const [problems, setProblems] = useState<Record<string, string | undefined>>({});
  const set = (name: string, given: unknown, problem?: string) => {
    const next = { ...value };
    if (given === undefined) delete next[name];
    else next[name] = given;
    const all = { ...problems, [name]: problem };
    setProblems(all);
    change(next, Object.values(all).find(Boolean));
  };
  return (
    <>
      {Object.entries<Schema>(schema.properties).map(([name, of]) => (
        <One key={name} name={name} isRequired={required.includes(name)} schema={of} value={value[name]} change={(given, problem) => set(name, given, problem)} />
      ))}
    </>
  );
}

function One({ name, isRequired, schema, value, change }: { name: string; isRequired: boolean; schema: Schema; value: unknown; change: (value: unknown, problem?: string) => void }) {
  const label = isRequired ? name : `${name} (optional)`;
  if (typeof schema === 'object') {
    if (schema.enum) {
      return (
        <Field label={label} hint={schema.description}>
          <select value={String(value ?? '')} onChange={(event) => change(schema.enum.find((it: unknown) => String(it) === event.currentTarget.value))}>
            {!isRequired && <option value="" />}
            {schema.enum.map((it: unknown) => (
              <option key={String(it)} value={String(it)}>
                {String(it)}
              </option>
            ))}
          </select>
        </Field>
      );
    }
    if (schema.type === 'string') {
      return (
        <Field label={label} hint={schema.description}>
          <input type="text" value={String(value ?? '')} maxLength={schema.maxLength} onInput={(event) => change(event.currentTarget.value === '' && !isRequired ? undefined : event.currentTarget.value)} />
        </Field>
      );
    }
    if (schema.type === 'integer' || schema.type === 'number') {
      return (
        <Field label={label} hint={schema.description}>
          <input type="number" value={value === undefined ? '' : String(value)} min={schema.minimum} max={schema.maximum} step={schema.type === 'integer' ? 1 : 'any'}
            onInput={(event) => change(event.currentTarget.value === '' ? undefined : Number(event.currentTarget.value))} />
        </Field>
      );
    }
    if (schema.type === 'boolean') {
      return (
        <label class="check">
          <input type="checkbox" checked={value === true} onChange={(event) => change(event.currentTarget.checked)} /> {label}
        </label>
      );
    }
  }
  return <JsonField label={`${label} (JSON)`} value={value} change={change} />;
}

export function JsonField({ label, value, change, rows = 4 }: { label: string; value: unknown; change: (value: unknown, problem?: string) => void; rows?: number }) {
  const shown = JSON.stringify(value, null, 2) ?? 'null';
  const [text, set] = useState(shown);
  const read = parsed(text);
  useLayoutEffect(() => {
    if (JSON.stringify(read.value, null, 2) !== shown && read.problem === undefined) set(shown);
  }, [shown]);
  return (
    <Field label={label} hint={read.problem && <span class="bad-text">{read.problem}</span>}>
      <textarea rows={rows} spellcheck={false} value={text}
        onInput={(event) => {
          set(event.currentTarget.value);
          const now = parsed(event.currentTarget.value);
          change(now.problem ? value : now.value, now.problem);
        }} />
    </Field>
  );
}
