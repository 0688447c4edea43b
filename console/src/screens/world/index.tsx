// A world: its timeline, a slider over its heights, and everything about the height under the slider.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, type Effect, type Family, type Page, type WhyWorld, type WorldDetails } from '../../api/client';
import { useLoad } from '../../api/use';
import { useKeys } from '../../lib/keys';
import { follows } from '../../lib/records';
import { go, refine, to, type Route } from '../../lib/route';
import { useMay, useSession } from '../../lib/session';
import { count } from '../../lib/text';
import { Badge, Empty, Id, Loading, Problem, Tabs, Time } from '../../ui/basics';
import { Labels } from '../../ui/labels';
import { WorldLink } from '../../ui/world-link';
import { Actions } from './actions';
import { Cells } from './cells';
import { ChildrenPanel, useChildren } from './children';
import { DifferenceOf } from './difference';
import { FunctionsPanel, useFunctions, type FunctionsAt } from './functions';
import { useJournal } from './journal';
import { Logs } from './logs';
import { OpenWork } from './open';
import { ownerOf, useMoment } from './past';
import { RecordPanel } from './record';
import { SendPanel, QueryPanel } from './send';
import { Slider } from './slider';
import { Timeline } from './timeline';
import { Why } from './why';

const TABS = ['state', 'record', 'open', 'functions', 'children', 'difference', 'send', 'query', 'logs'] as const;
type Tab = (typeof TABS)[number];

export function WorldScreen({ world, route }: { world: string; route: Route }) {
  const { universe } = useSession();
  const path = { universe, world };
  const details = useLoad((signal) => api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path, signal }), [universe, world], 3_000);
  const effects = useLoad((signal) => api.get<Page<Effect>>('/v1/u/{universe}/effects', { path, query: { world, limit: 20 }, signal }), [universe, world], 3_000);
  const why = useLoad((signal) => api.get<WhyWorld>('/v1/u/{universe}/worlds/{world}/why', { path, signal }), [universe, world], 3_000);
  const family = useLoad((signal) => api.get<Family>('/v1/u/{universe}/worlds/{world}/lineage', { path, signal }), [universe, world]);
  if (details.error && !details.value) {
    return details.error.code === 'WORLD_NOT_FOUND' ? (
      <Empty title={`There is no world “${world}” in ${universe}`}>
        <a href={to(['u', universe, 'worlds'])}>All worlds</a>
      </Empty>
    ) : (
      <Problem error={details.error} retry={details.reload} />
    );
  }
  if (!details.value) return <Loading what={`world ${world}`} />;
  const reload = () => {
    details.reload();
    effects.reload();
    why.reload();
    family.reload();
  };
  return <Shown world={world} route={route} details={details.value} effects={effects.value?.items} why={why.value} family={family.value} reload={reload} />;
}

interface Props {
  world: string;
  route: Route;
  details: WorldDetails;
  effects?: Effect[];
  why?: WhyWorld;
  family?: Family;
  reload: () => void;
}

function Shown({ world, route, details, effects, why, family, reload }: Props) {
  const { universe } = useSession();
  const may = useMay();
  const { journal, head, isLive } = useJournal(universe, world, details.head ?? undefined);
  const atOfRoute = numberOf(route.query.get('at'));
  const [at, setAt] = useState(atOfRoute);
  const [prefix, setPrefix] = useState('');
  const other = numberOf(route.query.get('vs'));
  const tab = (TABS as readonly string[]).includes(route.query.get('tab') ?? '') ? (route.query.get('tab') as Tab) : 'state';
  // The address follows the slider; only an address that came from elsewhere moves it.
  const written = useRef(atOfRoute);
  useEffect(() => {
    if (atOfRoute !== written.current) setAt((written.current = atOfRoute));
  }, [atOfRoute]);

  const newest = head - 1;
  const isFollowing = at === undefined;
  const height = Math.min(at ?? newest, newest);
  const owner = head > 0 ? ownerOf(details.world, details.first_height, height, family) : undefined;
  const { moment, error } = useMoment(universe, owner, head > 0 ? height : undefined, prefix);
  useEffect(() => journal.want(height - 8, height + 8, head), [height, head]);
  // What is at the height under the slider is what was before the next record.
  const functionsAt: FunctionsAt = isFollowing || owner === undefined ? { owner: world } : { owner, before: height + 1 };
  // A slider that is dragged asks for functions of the past only where they are shown.
  const functions = useFunctions(tab === 'functions' ? functionsAt : { owner: world }, tab === 'functions');
  const [childrenAfter, pageChildren] = useState<string[]>([]);
  const children = useChildren(world, childrenAfter.at(-1), tab === 'children');

  // Keys may come faster than the page is drawn: they move on from where the last one went.
  const target = useRef(height);
  target.current = height;
  // The address is written once the slider rests: browsers bound how often it may change.
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const select = (wanted: number | undefined) => {
    const next = wanted === undefined ? undefined : Math.max(0, Math.min(newest, wanted));
    setAt(next);
    target.current = next ?? newest;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      written.current = next;
      refine({ at: next });
    }, 200);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const step = (direction: 1 | -1) => {
    let next = target.current + direction;
    for (let record = journal.at(next); record && (follows(record) || record.type === 'outcome_digest') && next > 0 && next < newest; record = journal.at(next)) next += direction;
    select(next);
  };
  const forkAt = journal.settled(height, head);
  const forkAddress = to(['u', universe, 'worlds', world, 'fork'], { at: forkAt });
  useKeys({
    ArrowLeft: () => select(target.current - 1),
    ArrowRight: () => select(target.current + 1),
    k: () => select(target.current - 1),
    j: () => select(target.current + 1),
    '[': () => step(-1),
    ']': () => step(1),
    Home: () => select(0),
    End: () => select(newest),
    l: () => select(isFollowing ? height : undefined),
    f: () => may('send') && go(forkAddress),
    c: () => refine({ vs: height, tab: 'difference' }),
  });

  const record = journal.at(height);
  const openTotal = moment ? moment.step.open_intents_total + moment.step.timers_total : undefined;
  const names = useMemo(() => ({ details, journal, head, universe, world }), [details, head, journal, universe, world]);
  return (
    <div class="world">
      <header class="world-head">
        <div class="world-name">
          <h1>{details.name ?? world}</h1>
          <Badge of={details.state} />
          <Id id={details.world} length={14} />
        </div>
        <dl class="facts">
          <div>
            <dt>Program</dt>
            <dd>{details.program ?? <code>{details.manifest?.slice(0, 12)}…</code>}</dd>
          </div>
          <div>
            <dt>Records</dt>
            <dd>{head.toLocaleString('en-US')}</dd>
          </div>
          <div>
            <dt>Created</dt>
            <dd>
              <Time at={details.created_at} />
            </dd>
          </div>
          {details.parent && (
            <div>
              <dt>Forked from</dt>
              <dd>
                <WorldLink id={details.parent.world} name={details.parent.world_name ?? null} at={Math.max(0, details.parent.forked_at - 1)} /> at {details.parent.forked_at}
                {' · '}
                <a href={to(['u', universe, 'compare'], { left: details.parent.world, right: world, from: details.parent.forked_at })}>compare</a>
              </dd>
            </div>
          )}
          <div>
            <dt>Labels</dt>
            <dd>
              <Labels world={details.name ?? details.world} labels={details.labels} changed={reload} />
            </dd>
          </div>
          {details.pinned && details.assigned_to && (
            <div>
              <dt>Pinned to</dt>
              <dd>
                <Id id={details.assigned_to} />
              </dd>
            </div>
          )}
          <div>
            <dt>Lineage</dt>
            <dd>
              <a href={to(['u', universe, 'worlds', world, 'lineage'])}>{family ? `${count(family.ancestors.length, 'ancestor')}, ${count(family.forks.length, 'fork')}${family.more_forks ? ' or more' : ''}` : 'tree'}</a>
            </dd>
          </div>
        </dl>
        <Actions details={details} world={world} forkAddress={forkAddress} height={height} reload={reload} />
      </header>
      <Why details={details} why={why} effects={effects} dispatched={children.value?.items} />
      <Slider height={height} head={head} firstHeight={details.first_height} isFollowing={isFollowing} isLive={isLive} logical={moment?.height === height ? moment.step.logical_now : undefined} select={select} step={step} />
      {journal.error && <Problem error={journal.error} />}
      <div class="columns">
        <section class="panel" aria-label="Timeline">
          <Timeline journal={journal} head={head} firstHeight={details.first_height} selected={head > 0 ? height : undefined} select={select} />
        </section>
        <section class="panel at-height" aria-label={`The world at height ${height}`}>
          <Tabs
            label="What to see at this height"
            chosen={tab}
            choose={(chosen) => refine({ tab: chosen === 'state' ? undefined : chosen })}
            of={[
              ['state', <>State{moment && moment.step.changes.length > 0 && <span class="pill">{moment.step.changes.length} changed</span>}</>],
              ['record', 'Record'],
              ['open', <>Open{openTotal ? <span class="pill">{openTotal}</span> : null}</>],
              ...tabIf('functions', 'Functions', functions.value?.items.filter((it) => it.state === 'running').length, tab, functions.value?.items.length),
              ...tabIf('children', 'Children', children.value?.items.filter((it) => it.phase !== 'terminal').length, tab, children.value?.items.length),
              ['difference', 'Diff'],
              ...(may('send') && details.state !== 'archived' ? ([['send', 'Send']] as [Tab, string][]) : []),
              ['query', 'Query'],
              ['logs', 'Logs'],
            ]}
          />
          <div class="tab-body" role="tabpanel" tabIndex={0} aria-label={tab} aria-busy={moment?.height !== height} data-height={moment?.height}>
            {error && !moment && <Problem error={error} />}
            {tab === 'state' && moment && <Cells cells={moment.cells} changes={moment.step.changes} more={moment.more} search={prefix} onSearch={setPrefix} />}
            {tab === 'record' && record && <RecordPanel {...names} record={record} moment={moment} owner={owner ?? world} select={select} />}
            {tab === 'open' && moment && <OpenWork step={moment.step} select={select} now={isFollowing} effects={effects ?? []} reload={reload} />}
            {tab === 'functions' && <FunctionsPanel world={world} at={functionsAt} found={functions} opened={route.query.get('instance')} select={select} />}
            {tab === 'children' && <ChildrenPanel world={world} found={children} after={childrenAfter} page={pageChildren} opened={route.query.get('child')} select={select} />}
            {tab === 'difference' && <DifferenceOf {...names} height={height} other={other} />}
            {tab === 'send' && may('send') && <SendPanel universe={universe} world={world} manifest={details.manifest} done={reload} />}
            {tab === 'query' && <QueryPanel universe={universe} world={owner ?? world} manifest={moment?.step.manifest ?? details.manifest} height={height} isNewest={isFollowing} />}
            {tab === 'logs' && <Logs universe={universe} world={world} select={select} />}
          </div>
        </section>
      </div>
    </div>
  );
}

/** A tab that most worlds do not need: it is there where there is something to see, with how much of it is not over. */
function tabIf(tab: Tab, name: string, open: number | undefined, chosen: Tab, total: number | undefined): [Tab, ComponentChildren][] {
  if (!total && chosen !== tab) return [];
  return [[tab, <>{name}{open ? <span class="pill">{open}</span> : null}</>]];
}

function numberOf(text: string | null): number | undefined {
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}
