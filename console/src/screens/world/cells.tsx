// The cells of a world at a height, as a tree along the `/` in their keys. What the record changed is marked.
import { useMemo, useState } from 'preact/hooks';
import type { Cell, Difference } from '../../api/client';
import { gist } from '../../lib/text';
import { Empty } from '../../ui/basics';
import { Value } from '../../ui/json';

interface Leaf {
  key: string;
  value: unknown;
  change?: 'new' | 'changed' | 'removed';
  before?: unknown;
}

interface Branch {
  leaves: Leaf[];
  branches: Map<string, Branch>;
  changed: boolean;
}

function merge(cells: Cell[], changes: Difference[]): Leaf[] {
  const changed = new Map(changes.map((change) => [change.key, change]));
  const leaves: Leaf[] = cells.map(({ key, value }) => {
    const change = changed.get(key);
    changed.delete(key);
    if (!change) return { key, value };
    return { key, value, change: 'left' in change ? 'changed' : 'new', before: change.left };
  });
  for (const { key, left, ...rest } of changed.values()) {
    if (!('right' in rest)) leaves.push({ key, value: undefined, change: 'removed', before: left });
  }
  return leaves.sort((a, b) => (a.key < b.key ? -1 : 1));
}

function tree(leaves: Leaf[]): Branch {
  const root: Branch = { leaves: [], branches: new Map(), changed: false };
  for (const leaf of leaves) {
    const parts = leaf.key.split('/').slice(0, -1);
    let branch = root;
    branch.changed ||= leaf.change !== undefined;
    for (const part of parts) {
      if (!branch.branches.has(part)) branch.branches.set(part, { leaves: [], branches: new Map(), changed: false });
      branch = branch.branches.get(part)!;
      branch.changed ||= leaf.change !== undefined;
    }
    branch.leaves.push(leaf);
  }
  return root;
}

export function Cells({ cells, changes, more, search, onSearch }: { cells: Cell[]; changes: Difference[]; more: boolean; search: string; onSearch: (prefix: string) => void }) {
  const [text, set] = useState(search);
  const leaves = useMemo(() => merge(cells, changes), [cells, changes]);
  const wanted = text.toLowerCase();
  const shown = useMemo(() => leaves.filter((leaf) => leaf.key.toLowerCase().includes(wanted) || gist(leaf.value, 2_000).toLowerCase().includes(wanted)), [leaves, wanted]);
  const root = useMemo(() => tree(shown), [shown]);
  return (
    <div class="cells">
      <input type="search" placeholder="Search cells" aria-label="Search cells by key or value" value={text} onInput={(event) => set(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Enter' && onSearch(text)} />
      {more && (
        <p class="hint">
          Only the first {cells.length.toLocaleString('en-US')} cells are loaded. Press Enter to load those whose key begins with what you typed.
        </p>
      )}
      {leaves.length === 0 ? (
        <Empty title="No cells at this height">A cell is one keyed piece of a world’s state. The program has written none yet.</Empty>
      ) : shown.length === 0 ? (
        <Empty title="No cell fits" />
      ) : (
        <Part branch={root} depth={0} />
      )}
    </div>
  );
}

function Part({ branch, depth }: { branch: Branch; depth: number }) {
  return (
    <ul class="tree">
      {[...branch.branches].map(([name, inner]) => (
        <Folder key={name} name={name} branch={inner} depth={depth} />
      ))}
      {branch.leaves.map((leaf) => (
        <CellRow key={leaf.key} leaf={leaf} depth={depth} />
      ))}
    </ul>
  );
}

function size(branch: Branch): number {
  return branch.leaves.length + [...branch.branches.values()].reduce((sum, inner) => sum + size(inner), 0);
}

function Folder({ name, branch, depth }: { name: string; branch: Branch; depth: number }) {
  const total = size(branch);
  const [isOpen, set] = useState<boolean | undefined>(undefined);
  const open = isOpen ?? (branch.changed || total <= 40);
  return (
    <li>
      <button type="button" class="folder" aria-expanded={open} onClick={() => set(!open)}>
        <span aria-hidden="true">{open ? '▾' : '▸'}</span> {name}/ <span class="mute">{total}</span>
        {branch.changed && !open && <span class="badge info">changed</span>}
      </button>
      {open && <Part branch={branch} depth={depth + 1} />}
    </li>
  );
}

function CellRow({ leaf, depth }: { leaf: Leaf; depth: number }) {
  const [isOpen, set] = useState(false);
  const name = leaf.key.split('/').at(-1) || leaf.key;
  return (
    <li>
      <button type="button" class={`cell ${leaf.change ?? ''}`} aria-expanded={isOpen} title={leaf.key} onClick={() => set(!isOpen)}>
        <span class="cell-key">{depth === 0 ? leaf.key : name}</span>
        <span class="cell-value">
          {leaf.change === 'changed' && (
            <>
              <del>{gist(leaf.before, 60)}</del> <span aria-hidden="true">→</span>{' '}
            </>
          )}
          {leaf.change === 'removed' ? <del>{gist(leaf.before, 80)}</del> : gist(leaf.value, 100)}
        </span>
        {leaf.change && <span class={`change ${leaf.change}`}>{leaf.change}</span>}
      </button>
      {isOpen && (
        <div class="cell-open">
          {leaf.change === 'changed' && (
            <>
              <span class="field-label">Before</span>
              <Value value={leaf.before} />
              <span class="field-label">After</span>
            </>
          )}
          <Value value={leaf.change === 'removed' ? leaf.before : leaf.value} />
        </div>
      )}
    </li>
  );
}
