// Labels of a world: shown, a way to the worlds that share one, and edited.
import { useState } from 'preact/hooks';
import { api, type Refusal } from '../api/client';
import { command } from '../lib/commands';
import { to } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { Commands, Dialog, Problem } from './basics';
import { toast } from './toast';

export function LabelsOf({ labels, universe }: { labels: Record<string, string>; universe: string }) {
  return (
    <>
      {Object.entries(labels).map(([key, value]) => (
        <a key={key} class="label" href={to(['u', universe, 'worlds'], { label: `${key}=${value}` })} title={`All worlds with ${key}=${value}`}>
          {value === '' ? key : `${key}=${value}`}
        </a>
      ))}
    </>
  );
}

/** Of one world, with a button to edit them. */
export function Labels({ world, labels, changed }: { world: string; labels: Record<string, string>; changed: () => void }) {
  const { universe } = useSession();
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  const isEmpty = Object.keys(labels).length === 0;
  if (isEmpty && !may('admin')) return <span class="mute">none</span>;
  return (
    <span class="labels">
      <LabelsOf labels={labels} universe={universe} />
      {may('admin') && (
        <button type="button" class="link" onClick={() => setOpen(true)}>
          {isEmpty ? 'Add labels' : 'Edit labels'}
        </button>
      )}
      {isOpen && <Edit world={world} labels={labels} close={(done) => (setOpen(false), done && changed())} />}
    </span>
  );
}

type Row = [key: string, value: string];

function Edit({ world, labels, close }: { world: string; labels: Record<string, string>; close: (done: boolean) => void }) {
  const { universe } = useSession();
  const [rows, setRows] = useState<Row[]>([...Object.entries(labels), ['', '']]);
  const [error, setError] = useState<Refusal>();
  const put = (index: number, row: Row) => setRows(rows.map((it, at) => (at === index ? row : it)));
  const given: Record<string, string> = Object.fromEntries(rows.filter(([key]) => key !== ''));
  const set = Object.fromEntries(Object.entries(given).filter(([key, value]) => labels[key] !== value));
  const remove = Object.keys(labels).filter((key) => !(key in given));
  const isChanged = remove.length + Object.keys(set).length > 0;
  const asked = { path: { universe, world }, body: { set, remove } };
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      await api.post('/v1/u/{universe}/worlds/{world}/labels', asked);
      toast('Labels saved');
      close(true);
    } catch (refusal) {
      setError(refusal as Refusal);
    }
  };
  const words = [...Object.entries(set).map(([key, value]) => `${key}=${value}`), ...remove.map((key) => `${key}-`)];
  return (
    <Dialog title={`Labels of ${world}`} close={() => close(false)}>
      <form onSubmit={save}>
        <p class="prose">Lists, counts and bulk commands find worlds by them. Your name is on record for the change.</p>
        <ul class="label-rows">
          {rows.map(([key, value], index) => (
            <li key={index} class="row">
              <input type="text" placeholder="key" aria-label={`Key of label ${index + 1}`} value={key} onInput={(event) => put(index, [event.currentTarget.value, value])} />
              <span aria-hidden="true">=</span>
              <input type="text" placeholder="value" aria-label={`Value of label ${index + 1}`} value={value} onInput={(event) => put(index, [key, event.currentTarget.value])} />
              <button type="button" aria-label={`Remove label ${index + 1}`} onClick={() => setRows(rows.filter((_, at) => at !== index))}>
                Remove
              </button>
            </li>
          ))}
        </ul>
        <button type="button" class="link" onClick={() => setRows([...rows, ['', '']])}>
          Another label
        </button>
        {error && <Problem error={error} />}
        <footer>
          <button type="button" onClick={() => close(false)}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={!isChanged}>
            Save
          </button>
        </footer>
        {isChanged && <Commands of={command(universe, ['world', 'label', world, ...words], 'POST', '/v1/u/{universe}/worlds/{world}/labels', asked)} />}
      </form>
    </Dialog>
  );
}
