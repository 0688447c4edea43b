// All worlds of a universe: a table that stays fast with a hundred thousand of them.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, Refusal, type Page, type Program, type Query, type World, type WorldDetails } from '../api/client';
import { useEvents, type Changes } from '../api/changes';
import { useLoad } from '../api/use';
import { command } from '../lib/commands';
import { useKeys } from '../lib/keys';
import { go, refine, to, type Route } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { count, short } from '../lib/text';
import { waiting } from '../lib/time';
import { Badge, Commands, Confirm, Copy, Dialog, Empty, Field, Problem, Time, type Action } from '../ui/basics';
import { Icon } from '../ui/icon';
import { LabelsOf } from '../ui/labels';
import { VirtualList } from '../ui/list';
import { BulkDialog } from './bulk';
import { REHEARSED_MAX } from './rehearse';
import { worldActions } from './world-actions';

const PAGE = 500;
/** As soon as fewer rows than this lie below what is shown, the next page is asked for. */
const AHEAD = 200;

/** A worker lets a world rest a while after its last turn: then it waits. */
const SETTLED_MS = 3_000;

type Sort = 'id' | 'name' | 'created' | 'active' | 'state' | 'program';
const STATES: [state: string, name: string][] = [
  ['live', 'live, also paused or on hold'],
  ['paused', 'paused'],
  ['on_hold', 'on hold'],
  ['archived', 'archived'],
  ['deleting', 'deleting'],
  ['deleted', 'deleted'],
];

/** What went wrong: filters of the server that are no states. */
const TROUBLES: [trouble: string, name: string][] = [
  ['failed', 'A step failed'],
  ['none', 'No step failed'],
  ['dead_letters', 'Has dead letters'],
  ['old_effects', 'An effect is open for an hour'],
];

/** Ages, in hours: `24h` for less than a day, `24h+` for more. */
const AGES: [age: string, name: string][] = [
  ['1h', 'in the last hour'],
  ['24h', 'in the last day'],
  ['168h', 'in the last week'],
  ['1h+', 'over an hour ago'],
  ['24h+', 'over a day ago'],
  ['168h+', 'over a week ago'],
  ['720h+', 'over 30 days ago'],
];

interface Filter {
  state: string;
  program: string;
  name: string;
  held: string;
  label: string;
  trouble: string;
  created: string;
  active: string;
}

/** Tables of up to so many rows are read again when more worlds change than the server names; those that are larger say that they are old. */
const REFRESHED_MAX = 2_000;

/** Orders that the server knows. It lists only worlds that have a name in the order of names. */
const SERVER_ORDERS: Partial<Record<Sort, string>> = { name: 'name', created: 'newest', active: 'active' };

/** A part of an id, which the server does not look for. */
const isPartOfId = (name: string) => /^w_/i.test(name);

/** The moment that an age means, and on which side of it the worlds lie. */
function spanOf(age: string, now: number): { after?: number; before?: number } {
  const [, hours, isOlder] = /^(\d+)h(\+?)$/.exec(age) ?? [];
  if (hours === undefined) return {};
  const at = now - Number(hours) * 3_600_000;
  return isOlder ? { before: at } : { after: at };
}

const moment = (at: number | undefined) => (at === undefined ? undefined : new Date(at).toISOString());

/** The filters as the server takes them; only parts of ids are left, which it does not look for. */
function serverFilter({ state, program, held, name, label, trouble, created, active }: Filter, now: number): Query {
  const [born, used] = [spanOf(created, now), spanOf(active, now)];
  return {
    name_contains: isPartOfId(name) ? undefined : name || undefined,
    state: state || undefined,
    program: program || undefined,
    held_by: held || undefined,
    label: label || undefined,
    failed: trouble === 'failed' ? true : trouble === 'none' ? false : undefined,
    dead_letters: trouble === 'dead_letters' ? true : undefined,
    effects_older_than_s: trouble === 'old_effects' ? 3_600 : undefined,
    created_after: moment(born.after),
    created_before: moment(born.before),
    active_after: moment(used.after),
    active_before: moment(used.before),
  };
}

/** Filters by what stands elsewhere than in a world: whether it still fits is known to the server only. */
const isOfQueues = ({ trouble }: Filter) => trouble === 'dead_letters' || trouble === 'old_effects';

class Rows {
  items: World[] = [];
  next: string | null | undefined = undefined;
  loading = false;
  /** Worlds changed since it was read. */
  isOld = false;
  error?: Refusal;
  private abort = new AbortController();
  /** Worlds that changed while pages were read, which may be older: as they are now, or that they are gone. */
  private meanwhile = new Map<string, World | undefined>();
  /** All was to be read again while something was being read. */
  private isStale = false;
  private unsettled = new Set<string>();
  private timer?: ReturnType<typeof setTimeout>;
  /** Ages are counted back from here, so that all pages are of one list. */
  readonly now = Date.now();

  constructor(
    private universe: string,
    private filter: Filter,
    private sort: Sort,
    private changed: () => void,
  ) {}

  get isComplete() {
    return this.next === null;
  }

  async more() {
    if (this.loading || this.isComplete) return;
    this.loading = true;
    try {
      const page = await this.page(this.next);
      const known = new Set(this.items.map((it) => it.world));
      this.items = this.items.concat(page.items.filter((it) => !known.has(it.world)));
      this.next = page.next;
      this.error = undefined;
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.error = error as Refusal;
    }
    this.read();
  }

  /** A read is over: what changed meanwhile holds. */
  private read() {
    this.loading = false;
    const changed = [...this.meanwhile];
    this.meanwhile.clear();
    for (const [world, found] of changed) found ? this.put(found) : this.remove(world);
    this.changed();
    if (this.isStale) {
      this.isStale = false;
      void this.refresh();
    }
  }

  private page(after: string | null | undefined): Promise<Page<World>> {
    const query = { ...serverFilter(this.filter, this.now), sort: SERVER_ORDERS[this.sort], after, limit: PAGE };
    return api.get<Page<World>>('/v1/u/{universe}/worlds', { path: { universe: this.universe }, query, signal: this.abort.signal });
  }

  /** Worlds changed: those that the server names are read one by one, in a table of many pages. */
  async follow({ changed, worlds, more_worlds }: Changes) {
    if (!changed.includes('worlds') || this.next === undefined) return;
    const named = worlds.map(({ world }) => world);
    this.lookAgain(named);
    if (more_worlds || isOfQueues(this.filter) || (this.isComplete && this.items.length <= PAGE)) return this.refresh();
    await this.readEach(named);
  }

  /** A world that has just changed has work, and says what it waits for only when that is done: no event tells of it. */
  private lookAgain(worlds: string[]) {
    worlds.forEach((it) => this.unsettled.add(it));
    this.timer ??= setTimeout(() => {
      const busy = this.items.filter((it) => this.unsettled.has(it.world) && it.lease && !it.waits && it.state === 'live');
      this.unsettled.clear();
      this.timer = undefined;
      void this.readEach(busy.map((it) => it.world));
    }, SETTLED_MS);
  }

  private async readEach(worlds: string[]) {
    if (worlds.length === 0) return;
    const read = worlds.map((world) =>
      api.get<WorldDetails>('/v1/u/{universe}/worlds/{world}', { path: { universe: this.universe, world }, signal: this.abort.signal }).then(
        (found) => this.put(found),
        (error) => error.status === 404 && this.remove(world),
      ),
    );
    await Promise.all(read);
    if (!this.abort.signal.aborted) this.changed();
  }

  private remove(world: string) {
    if (this.loading) this.meanwhile.set(world, undefined);
    this.items = this.items.filter((it) => it.world !== world);
  }

  /** A world as it is now, in its place. One that stands behind all that was read comes with a later page. */
  private put(found: World) {
    if (this.loading) this.meanwhile.set(found.world, found);
    const at = this.items.findIndex((it) => it.world === found.world);
    const others = at < 0 ? this.items : this.items.toSpliced(at, 1);
    if (!isListed(found, this.filter, this.now)) return void (this.items = others);
    const keeps = at >= 0 && this.sort !== 'active';
    const behind = others.findIndex((it) => isBefore(found, it, this.sort));
    const place = keeps ? at : behind;
    if (place < 0 && !this.isComplete) this.items = others;
    else this.items = others.toSpliced(place < 0 ? others.length : place, 0, found);
  }

  /** Reads again what was read, if that is not much; otherwise it is only noted that it is old. */
  async refresh() {
    if (this.loading) this.isStale = true;
    if (this.loading || this.next === undefined) return;
    this.isOld = this.items.length > REFRESHED_MAX;
    if (!this.isOld) {
      this.loading = true;
      try {
        const wanted = this.items.length;
        let items: World[] = [];
        let next: string | null | undefined;
        do {
          const page = await this.page(next);
          items = items.concat(page.items);
          next = page.next;
        } while (next !== null && items.length < wanted);
        [this.items, this.next] = [items, next];
      } catch {
        if (this.abort.signal.aborted) return;
      }
    }
    this.read();
  }

  end() {
    clearTimeout(this.timer);
    this.abort.abort();
  }
}

function filterOf(route: Route): Filter {
  const get = (name: string) => route.query.get(name) ?? '';
  // `failed` was a state in addresses that people kept.
  const isFailed = get('state') === 'failed';
  const [state, trouble] = [isFailed ? '' : get('state'), isFailed ? 'failed' : get('trouble')];
  return { state, trouble, program: get('program'), name: get('name'), held: get('held'), label: get('label'), created: get('created'), active: get('active') };
}

export function Worlds({ route }: { route: Route }) {
  const { universe } = useSession();
  const may = useMay();
  const filter = filterOf(route);
  const sort = (route.query.get('sort') ?? 'id') as Sort;
  const [turn, again] = useState(0);
  const [, redraw] = useState(0);
  const key = JSON.stringify([universe, { ...filter, name: isPartOfId(filter.name) ? '' : filter.name }, SERVER_ORDERS[sort], turn]);
  const rows = useMemo(() => new Rows(universe, filter, sort, () => redraw((it) => it + 1)), [key]);
  useEffect(() => {
    void rows.more();
    return () => rows.end();
  }, [rows]);
  useEvents(universe, (changes) => void rows.follow(changes));
  const programs = useLoad((signal) => api.get<Program[]>('/v1/u/{universe}/programs', { path: { universe }, signal }), [universe]);

  const shown = useMemo(() => sorted(rows.items.filter((world) => fits(world, filter)), sort), [rows.items, filter.name, sort]);
  const [reach, setReach] = useState(0);
  // A filter that fits little, and an order that is not the server's, need more pages than what is shown.
  const wantsAll = (sort !== 'id' && SERVER_ORDERS[sort] === undefined) || isPartOfId(filter.name);
  useEffect(() => {
    if (!rows.isComplete && !rows.error && (wantsAll || shown.length < reach + AHEAD)) void rows.more();
  });

  const [chosen, setChosen] = useState<Map<string, World>>(new Map());
  const [current, setCurrent] = useState(-1);
  const [action, setAction] = useState<Action>();
  const [isCreating, setCreating] = useState(route.query.has('new'));
  const [isBulk, setBulk] = useState(false);
  const name = useRef<HTMLInputElement>(null);
  const open = (world: World) => go(to(['u', universe, 'worlds', world.name ?? world.world]));
  const toggle = (world: World) => {
    const next = new Map(chosen);
    if (!next.delete(world.world)) next.set(world.world, world);
    setChosen(next);
  };
  useKeys({
    j: () => setCurrent(Math.min(shown.length - 1, current + 1)),
    k: () => setCurrent(Math.max(0, current - 1)),
    Enter: () => shown[current] && open(shown[current]),
    x: () => shown[current] && toggle(shown[current]),
    n: () => may('send') && setCreating(true),
  });
  const bulk = worldActions(universe, [...chosen.values()].map((it) => ({ world: it.world, name: it.name ?? short(it.world) })));
  const isFiltered = Object.values(filter).some(Boolean);
  return (
    <div class="fill">
      <header class="screen-head">
        <h1>Worlds</h1>
        <span class="mute" role="status" data-loaded={rows.items.length} data-complete={rows.isComplete}>
          {isFiltered ? `${count(shown.length, 'world')} found` : `${count(rows.items.length, 'world')} loaded`}
          {rows.isComplete ? '' : ', more below'}
        </span>
        {rows.isOld && (
          <button type="button" onClick={() => again(turn + 1)}>
            Worlds have changed: load them again
          </button>
        )}
        <span class="grow" />
        {may('send') && (
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            New world
          </button>
        )}
      </header>
      <div class="filters" role="group" aria-label="Filters">
        <input ref={name} type="search" placeholder="Name or id contains…" aria-label="Filter by name or id" value={filter.name} onInput={(event) => refine({ name: event.currentTarget.value })} />
        <select aria-label="State" value={filter.state} onChange={(event) => refine({ state: event.currentTarget.value })}>
          <option value="">Any state</option>
          {options(STATES)}
        </select>
        <select aria-label="Last error" value={filter.trouble} onChange={(event) => refine({ trouble: event.currentTarget.value, state: filter.state })}>
          <option value="">Failed or not</option>
          {options(TROUBLES)}
        </select>
        <input type="search" class="label-filter" placeholder="Label or label=value" aria-label="Filter by label" value={filter.label} onChange={(event) => refine({ label: event.currentTarget.value.trim() })} />
        <select aria-label="Program" value={filter.program} onChange={(event) => refine({ program: event.currentTarget.value })}>
          <option value="">Any program</option>
          {(programs.value ?? []).flatMap((program) => [program.name, ...program.versions.map((version) => version.name)]).map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
        <select aria-label="In memory" value={filter.held} onChange={(event) => refine({ held: event.currentTarget.value })}>
          <option value="">In memory or not</option>
          <option value="anybody">In memory of a worker</option>
          <option value="nobody">In no memory</option>
        </select>
        <select aria-label="Created" value={filter.created} onChange={(event) => refine({ created: event.currentTarget.value })}>
          <option value="">Created any time</option>
          {options(AGES, 'Created ')}
        </select>
        <select aria-label="Active" value={filter.active} onChange={(event) => refine({ active: event.currentTarget.value })}>
          <option value="">Active any time</option>
          {options(AGES, 'Active ')}
        </select>
        <select aria-label="Order" value={sort} onChange={(event) => refine({ sort: event.currentTarget.value === 'id' ? undefined : event.currentTarget.value })}>
          <option value="id">In the order of ids</option>
          <option value="name">By name (named only)</option>
          <option value="created">Newest first</option>
          <option value="active">Last active first</option>
          <option value="state">By state</option>
          <option value="program">By program</option>
        </select>
        {isFiltered && (
          <a class="button quiet" href={to(['u', universe, 'worlds'])}>
            Clear
          </a>
        )}
        {isFiltered && may('admin') && shown.length > 0 && !isPartOfId(filter.name) && (
          <button type="button" onClick={() => setBulk(true)}>
            All that fit…
          </button>
        )}
      </div>
      {chosen.size > 0 && (
        <div class="bulk" role="group" aria-label="What to do with the selected worlds">
          <strong>{chosen.size} selected</strong>
          {may('admin') &&
            [bulk.pause, bulk.resume, bulk.archive, bulk.delete].map((it) => (
              <button key={it.label} type="button" class={it.danger ? 'danger-quiet' : ''} onClick={() => setAction(it)}>
                {it.label}
              </button>
            ))}
          {may('admin') && (
            <a class="button" href={to(['u', universe, 'programs', 'rehearse'], { world: [...chosen.values()].slice(0, REHEARSED_MAX).map((it) => it.name ?? it.world).join(',') })}>
              {chosen.size > REHEARSED_MAX ? `Upgrade the first ${REHEARSED_MAX.toLocaleString('en-US')}…` : 'Upgrade…'}
            </a>
          )}
          <button type="button" class="quiet" onClick={() => setChosen(new Map())}>
            Clear the selection
          </button>
        </div>
      )}
      {rows.error && <Problem error={rows.error} retry={() => rows.more()} />}
      {rows.isComplete && shown.length === 0 ? (
        <Empty title={isFiltered ? 'No world fits these filters' : 'There are no worlds yet'}>
          {isFiltered ? <a href={to(['u', universe, 'worlds'])}>Show all worlds</a> : 'A world is one durable program: it has a journal of everything that it was told, and can be rewound and forked. Create one to begin.'}
        </Empty>
      ) : (
        <VirtualList
          class="worlds"
          label="Worlds"
          count={shown.length}
          rowHeight={38}
          current={current}
          onRange={(_, until) => setReach(until)}
          header={
            <div class="world-row head" aria-hidden="true">
              <span />
              <span>Name</span>
              <span>State</span>
              <span>Program</span>
              <span>Created</span>
              <span>Last active</span>
              <span>Labels</span>
              <span>Last error, or waits</span>
            </div>
          }
          row={(index) => {
            const world = shown[index]!;
            return <WorldRow world={world} universe={universe} current={index === current} chosen={chosen.has(world.world)} toggle={() => toggle(world)} />;
          }}
        />
      )}
      {action && <Confirm action={action} close={(done) => (setAction(undefined), done && (setChosen(new Map()), again(turn + 1)))} />}
      {isBulk && <BulkDialog filters={serverFilter(filter, rows.now)} close={(done) => (setBulk(false), done && again(turn + 1))} />}
      {isCreating && <Create programs={programs.value ?? []} close={() => setCreating(false)} />}
    </div>
  );
}

function options(of: [value: string, name: string][], before = '') {
  return of.map(([value, name]) => (
    <option key={value} value={value}>
      {before}
      {name}
    </option>
  ));
}

function WorldRow({ world, universe, current, chosen, toggle }: { world: World; universe: string; current: boolean; chosen: boolean; toggle: () => void }) {
  const name = world.name ?? world.world;
  const error = world.hold ?? world.failed;
  return (
    <div class={`world-row ${current ? 'current' : ''}`} role="listitem">
      <input type="checkbox" checked={chosen} onChange={toggle} aria-label={`Select ${name}`} />
      <span class="world-cell">
        <a href={to(['u', universe, 'worlds', name])}>{world.name ?? short(world.world, 16)}</a>
        {world.parent && <span class="fork-mark" title={`A fork, at height ${world.parent.forked_at}`}><Icon of="fork" /></span>}
        <Copy text={name} what="name" />
      </span>
      <span>
        <Badge of={world.state} />
      </span>
      <span class="cut">{world.program ?? short(world.manifest, 12)}</span>
      <span>
        <Time at={world.created_at} />
      </span>
      <span>{world.active_at ? <Time at={world.active_at} /> : <span class="mute">never</span>}</span>
      <span class="cut">
        <LabelsOf labels={world.labels} universe={universe} />
      </span>
      {error ? (
        <span class="cut error-text" title={`${error.code}: ${error.reason}`}>
          {error.code}: {error.reason}
        </span>
      ) : (
        <span class="cut mute">{world.waits && `waits ${waiting(world)}`}</span>
      )}
    </div>
  );
}

/** Whether the server would list a world under a filter. */
function isListed(world: World, { state, program, held, label, trouble, created, active }: Filter, now: number): boolean {
  if (state === 'live' ? !['live', 'paused', 'on_hold'].includes(world.state) : state ? world.state !== state : world.state === 'deleted') return false;
  if ((trouble === 'failed' && !world.failed) || (trouble === 'none' && world.failed)) return false;
  const [key, value] = [label.split('=', 1)[0]!, label.includes('=') ? label.slice(label.indexOf('=') + 1) : undefined];
  if (label && (value === undefined ? world.labels[key] === undefined : world.labels[key] !== value)) return false;
  const lies = (at: number | null | undefined, { after, before }: { after?: number; before?: number }) => {
    const ms = (at ?? 0) / 1e6;
    return (after === undefined || ms >= after) && (before === undefined || ms < before);
  };
  if (!lies(world.created_at_ns, spanOf(created, now)) || !lies(world.active_at_ns, spanOf(active, now))) return false;
  if (program && world.program !== program && !world.program?.startsWith(`${program}@`)) return false;
  return !held || (held === 'anybody') === Boolean(world.lease);
}

/** Whether a world stands before another one in an order of the server. */
function isBefore(one: World, other: World, sort: Sort): boolean {
  const latest = (at: number | null | undefined, than: number | null | undefined) => (at ?? 0) > (than ?? 0);
  if (sort === 'created') return latest(one.created_at_ns, other.created_at_ns);
  if (sort === 'active') return latest(one.active_at_ns, other.active_at_ns);
  if (sort === 'name') return (one.name ?? '\uffff') < (other.name ?? '\uffff');
  return one.world < other.world;
}

function fits(world: World, filter: Filter): boolean {
  const wanted = filter.name.toLowerCase();
  return !wanted || (world.name ?? '').toLowerCase().includes(wanted) || world.world.includes(wanted);
}

function sorted(worlds: World[], sort: Sort): World[] {
  const by: Record<Sort, ((world: World) => string) | undefined> = {
    id: undefined,
    name: undefined,
    created: undefined,
    active: undefined,
    state: (world) => world.state,
    program: (world) => world.program ?? '\uffff',
  };
  if (SERVER_ORDERS[sort] !== undefined) return worlds;
  const key = by[sort];
  return key ? [...worlds].sort((a, b) => (key(a) < key(b) ? -1 : 1)) : worlds;
}

function Create({ programs, close }: { programs: Program[]; close: () => void }) {
  const { universe } = useSession();
  const [world, setWorld] = useState('');
  const [program, setProgram] = useState('');
  const [error, setError] = useState<Refusal>();
  const chosen = program || programs[0]?.name || '';
  const body = { world: world || undefined, program: chosen };
  const create = async (event: Event) => {
    event.preventDefault();
    try {
      const made = await api.post<{ world: string }>('/v1/u/{universe}/worlds', { path: { universe }, body });
      go(to(['u', universe, 'worlds', world || made.world], { tab: 'send' }));
    } catch (refusal) {
      setError(refusal as Refusal);
    }
  };
  return (
    <Dialog title="New world" close={close}>
      <form onSubmit={create}>
        <Field label="Name" hint="Drawn at random if you leave it empty.">
          <input type="text" value={world} autoFocus onInput={(event) => setWorld(event.currentTarget.value)} />
        </Field>
        <Field label="Program" hint="What the world runs. Upload your own with `mundi program build` and `mundi program upload`.">
          <select value={chosen} onChange={(event) => setProgram(event.currentTarget.value)}>
            {programs.map((it) => (
              <option key={it.name} value={it.name}>
                {it.name}
                {it.built_in ? ' (comes with the server)' : ''}
              </option>
            ))}
          </select>
        </Field>
        {error && <Problem error={error} />}
        <footer>
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Create
          </button>
        </footer>
        <Commands of={command(universe, ['world', 'create', world, '--program', chosen], 'POST', '/v1/u/{universe}/worlds', { path: { universe }, body })} />
      </form>
    </Dialog>
  );
}
