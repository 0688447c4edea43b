// The records of a world, one row each: what follows from an event stands below it, and a bar says how long an effect took.
import { useMemo, useState } from 'preact/hooks';
import { tell, timeOf, type Told } from '../../lib/records';
import { clock, duration, milliseconds } from '../../lib/time';
import { VirtualList } from '../../ui/list';
import type { Journal } from './journal';

interface Props {
  journal: Journal;
  head: number;
  firstHeight: number;
  selected: number | undefined;
  select: (height: number) => void;
}

const ROW = 30;

export function Timeline({ journal, head, firstHeight, selected, select }: Props) {
  const [[from, until], setRange] = useState<[number, number]>([0, 0]);
  const span = useMemo(() => spanOf(journal, from, until), [journal, from, until, journal.at(from), journal.at(until - 1), head]);
  return (
    <VirtualList
      class="timeline"
      label={`Records 0 to ${head - 1}`}
      count={head}
      rowHeight={ROW}
      current={selected}
      onRange={(first, end) => {
        setRange([first, end]);
        journal.want(first, end, head);
      }}
      row={(height) => <Row journal={journal} height={height} inherited={height < firstHeight} selected={height === selected} span={span} select={select} />}
    />
  );
}

/** The moments between which the bars of the visible rows lie. */
function spanOf(journal: Journal, from: number, until: number): [number, number] {
  let [first, last] = [Infinity, -Infinity];
  for (let height = from; height < until; height += 1) {
    const at = journal.time(height);
    if (at === undefined) continue;
    [first, last] = [Math.min(first, at), Math.max(last, at)];
  }
  return [first, Math.max(last, first + 1)];
}

interface RowProps {
  journal: Journal;
  height: number;
  inherited: boolean;
  selected: boolean;
  span: [number, number];
  select: (height: number) => void;
}

function Row({ journal, height, inherited, selected, span, select }: RowProps) {
  const record = journal.at(height);
  if (!record) {
    return (
      <div class="record absent" role="listitem">
        <span class="height">{height}</span>
        <span class="mute">…</span>
      </div>
    );
  }
  const told = tell(record);
  const at = timeOf(record);
  return (
    <div role="listitem">
      <button type="button" class={`record ${told.kind} ${told.follows ? 'follows' : ''} ${inherited ? 'inherited' : ''}`} aria-current={selected ? 'true' : undefined}
        tabIndex={selected ? 0 : -1} onClick={() => select(height)} title={inherited ? 'A record of the parent' : undefined}>
        <span class="height">{height}</span>
        <span class="what">
          <span class={`dot ${told.tone ?? ''}`} aria-hidden="true" />
          <span class="title">{told.title}</span>
          <span class="detail">{told.detail}</span>
        </span>
        <Bar journal={journal} height={height} told={told} span={span} />
        <span class="at">{!told.follows && at ? clock(at).slice(0, 12) : ''}</span>
      </button>
    </div>
  );
}

/** From when an effect was asked for to its receipt; of an event, from when it was sent to when it was taken in. */
function Bar({ journal, height, told, span: [first, last] }: { journal: Journal; height: number; told: Told; span: [number, number] }) {
  const record = journal.at(height)!;
  const at = journal.time(height);
  let [begin, end]: (number | undefined)[] = [undefined, undefined];
  let isOpen = false;
  if (record.type === 'intent' && told.intent) {
    const joined = journal.joined.get(told.intent);
    begin = at;
    end = joined?.answered === undefined ? undefined : journal.time(joined.answered);
    isOpen = joined?.answered === undefined && joined?.withdrawn === undefined;
  } else if (record.type === 'ingress' && told.kind !== 'receipt' && told.kind !== 'timer') {
    [begin, end] = [milliseconds(record.enqueued_at), at];
  }
  if (begin === undefined || (end === undefined && !isOpen) || first === Infinity) return <span class="bar" />;
  const share = (time: number) => Math.min(100, Math.max(0, ((time - first) / (last - first)) * 100));
  const [left, right] = [share(begin), isOpen ? 100 : share(end!)];
  const took = isOpen ? (told.kind === 'timer' ? 'not fired yet' : 'no receipt yet') : duration(end! - begin);
  return (
    <span class="bar" title={took}>
      <span class={`bar-fill ${told.kind} ${isOpen ? 'open' : ''}`} style={{ marginLeft: `${Math.min(left, 99)}%`, width: `${Math.max(1, right - left)}%` }} />
      {record.type === 'intent' && <span class="bar-text">{took}</span>}
    </span>
  );
}
