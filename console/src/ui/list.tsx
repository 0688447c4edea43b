// A list of any length: only the rows that can be seen are in the page.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

interface Props {
  label: string;
  count: number;
  rowHeight: number;
  /** The row that is kept in view. */
  current?: number;
  row: (index: number) => ComponentChildren;
  /** Which rows are in the page now: the first one, and the one behind the last. */
  onRange?: (from: number, until: number) => void;
  class?: string;
  header?: ComponentChildren;
}

export function VirtualList({ label, count, rowHeight, current, row, onRange, header, class: name = '' }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useState(0);
  const virtualizer = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, Element>({
        count,
        getScrollElement: () => scroller.current,
        estimateSize: () => rowHeight,
        overscan: 12,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        onChange: () => redraw((turn) => turn + 1),
        initialRect: { width: 800, height: 600 },
      }),
    [],
  );
  virtualizer.setOptions({ ...virtualizer.options, count, estimateSize: () => rowHeight });
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());

  const items = virtualizer.getVirtualItems();
  const [from, until] = [items[0]?.index ?? 0, (items.at(-1)?.index ?? -1) + 1];
  useEffect(() => onRange?.(from, until), [from, until, count]);
  useEffect(() => {
    if (current !== undefined && current >= 0 && current < count) virtualizer.scrollToIndex(current, { align: 'auto' });
  }, [current, count > 0]);

  return (
    <div ref={scroller} class={`virtual ${name}`} role="list" aria-label={label} tabIndex={0}>
      {header}
      <div class="virtual-all" role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {items.map((item) => (
          <div key={item.key} class="virtual-row" role="presentation" style={{ transform: `translateY(${item.start}px)`, height: `${rowHeight}px` }}>
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
