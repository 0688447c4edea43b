// A value as a tree that can be opened, and copied.
import { useState } from 'preact/hooks';
import { gist } from '../lib/text';
import { Copy } from './basics';

export function Value({ value, open = 2 }: { value: unknown; open?: number }) {
  return (
    <div class="value">
      <Node value={value} depth={open} />
      <Copy text={JSON.stringify(value, null, 2) ?? ''} what="value" />
    </div>
  );
}

function Node({ name, value, depth }: { name?: string; value: unknown; depth: number }) {
  const [isOpen, set] = useState(depth > 0);
  const label = name === undefined ? null : <span class="json-key">{name}: </span>;
  if (value === null || typeof value !== 'object') {
    return (
      <div class="json-leaf">
        {label}
        <span class={`json-${value === null ? 'null' : typeof value}`}>{JSON.stringify(value)}</span>
      </div>
    );
  }
  const entries: [string, unknown][] = Array.isArray(value) ? value.map((item, index) => [String(index), item]) : Object.entries(value);
  if (entries.length === 0) {
    return (
      <div class="json-leaf">
        {label}
        {Array.isArray(value) ? '[]' : '{}'}
      </div>
    );
  }
  const shown = entries.slice(0, 500);
  const children = (
    <>
      {shown.map(([key, item]) => (
        <Node key={key} name={key} value={item} depth={depth - 1} />
      ))}
      {entries.length > shown.length && <div class="mute">{entries.length - shown.length} more; copy the value to see all of it</div>}
    </>
  );
  if (name === undefined) return <div class="json-node">{children}</div>;
  return (
    <div class="json-node">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => set(!isOpen)}>
        <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {label}
        {!isOpen && <span class="mute">{gist(value, 80)}</span>}
      </button>
      {isOpen && <div class="json-children">{children}</div>}
    </div>
  );
}
