import { Dialog } from './basics';

const KEYS: [string, string][] = [
  ['/', 'find a world or an effect'],
  ['j  k', 'next and previous row, or record'],
  ['x', 'select the row'],
  ['n', 'new world'],
  ['Enter', 'open the row'],
  ['←  →', 'move the slider by one height'],
  ['[  ]', 'previous and next step'],
  ['Home  End', 'first and newest height'],
  ['l', 'follow the newest record (live)'],
  ['f', 'fork at the height under the slider'],
  ['c', 'compare: keep this height as the other side'],
  ['g', 'home'],
  ['Esc', 'leave a field or a dialog'],
];

export function Shortcuts({ close }: { close: () => void }) {
  return (
    <Dialog title="Keyboard" close={close}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
