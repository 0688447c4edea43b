//! Where the rows of the tables come from: the same pages that the lists of the API read.

mod given;
mod pools;

use super::super::{
    Problem, children, dead_letters, effects,
    extract::world_of,
    functions, json as shown,
    naming::{with_name, with_names},
    timers, workers, worlds,
};
use crate::node::Universe;
use given::Given;
use mundi_model::{Code, Coded, Height, IntentHash, WorldId, WorldName, limits};
use mundi_runtime::control::{At, Pool};
use mundi_sql::{Columns, Condition, IsLate, Row, Rows, Source, SqlError, Table};
use mundi_store::{
    protocol::{FoundPlace, HeldLease, Page, QueuedEffect, WorldCursor, WorldOrder, WorldQuery, WorldSummary},
    values::{EffectPlace, ListedState, Queue, QueueSeq},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc};
use tokio::runtime::Handle;

/// Rows that are read ahead: a page of a list.
const PAGE_ROWS: usize = 200;

pub(super) struct UniverseTables {
    pub(super) universe: Arc<Universe>,
    pub(super) runtime: Handle,
    pub(super) is_late: IsLate,
    pub(super) timeout_ms: u64,
}

impl Source for UniverseTables {
    fn open(
        &self,
        table: &'static Table,
        conditions: Vec<Condition>,
        columns: Columns,
    ) -> Result<Box<dyn Rows>, SqlError> {
        let given = Given { conditions };
        let (universe, runtime) = (self.universe.clone(), self.runtime.clone());
        let (is_late, timeout_ms) = (self.is_late.clone(), self.timeout_ms);
        let place = PageState { is_over: given.is_impossible(), ..PageState::default() };
        Ok(Box::new(Reading {
            universe,
            runtime,
            is_late,
            timeout_ms,
            table,
            columns,
            given,
            ready: VecDeque::new(),
            place,
        }))
    }
}

/// Where the next page begins.
#[derive(Default)]
struct PageState {
    is_over: bool,
    /// Of a list: the `next` of its last page.
    after: Option<String>,
    /// Worlds whose rows are still to be read, with their names; `None` before any were asked for.
    worlds: Option<VecDeque<(WorldId, Option<String>)>>,
    /// Where the next page of worlds begins.
    worlds_after: Option<WorldCursor>,
    worlds_are_over: bool,
    /// Within the first of them, or within the first shard.
    within: Option<String>,
    /// Shards of pools whose rows are still to be read; `None` before any were asked for.
    shards: Option<VecDeque<(Pool, u64)>>,
    /// The index of times is read; worlds that are being deleted are in none.
    is_at_deleting: bool,
}

struct Reading {
    universe: Arc<Universe>,
    runtime: Handle,
    is_late: IsLate,
    timeout_ms: u64,
    table: &'static Table,
    columns: Columns,
    given: Given,
    ready: VecDeque<Row>,
    place: PageState,
}

impl Rows for Reading {
    fn next(&mut self) -> Result<Option<Row>, SqlError> {
        while self.ready.is_empty() && !self.place.is_over {
            if (self.is_late)() {
                return Err(SqlError::TooLong { ms: self.timeout_ms });
            }
            let runtime = self.runtime.clone();
            let page = runtime.block_on(self.page());
            let failed = |problem: Problem| SqlError::Source { code: problem.code, detail: problem.detail };
            self.ready = page.map_err(failed)?.into();
        }
        Ok(self.ready.pop_front())
    }
}

/// Something that the API shows, as a row.
fn row(shown: &impl Serialize) -> Row {
    match serde_json::to_value(shown) {
        Ok(Value::Object(row)) => row,
        _ => Row::new(),
    }
}

fn is_gone(code: Code) -> bool {
    matches!(code, Code::WorldNotFound | Code::WorldDeleted)
}

/// The name of a world stands under `name` in every table.
fn with_name_column(mut row: Row) -> Row {
    let name = row.get("world_name").cloned().unwrap_or(Value::Null);
    row.insert("name".to_owned(), name);
    row
}

/// A world, with what stands in objects of its own as columns.
fn of_world(shown: &impl Serialize) -> Row {
    let mut row = row(shown);
    let inner =
        |row: &Row, object: &str, field: &str| row.get(object).map_or(Value::Null, |found| found[field].clone());
    let flat = [
        ("parent_name", inner(&row, "parent", "world_name")),
        ("forked_at", inner(&row, "parent", "forked_at")),
        ("holder", inner(&row, "lease", "holder")),
        ("hold_code", inner(&row, "hold", "code")),
        ("parent", inner(&row, "parent", "world")),
    ];
    row.extend(flat.map(|(name, value)| (name.to_owned(), value)));
    row
}

impl Reading {
    async fn page(&mut self) -> Result<Vec<Row>, Problem> {
        match self.table.name {
            "worlds" => self.worlds().await,
            "labels" => self.labels().await,
            "lineage" => self.lineage().await,
            "journal" | "cells" | "snapshots" | "children" | "functions" => self.of_each_world().await,
            "pools" => self.pools().await,
            "pool_leases" | "pool_resources" => self.of_each_shard().await,
            "effects" => self.effects().await,
            "attempts" => self.attempts().await,
            "timers" => self.timers().await,
            "dead_letters" => self.dead_letters().await,
            "leases" => self.leases().await,
            _ => self.workers().await,
        }
    }

    /// The next page of a list begins here; without one the list is over.
    fn go_on(&mut self, next: Option<String>) {
        self.place.is_over = next.is_none();
        self.place.after = next;
    }

    async fn found(&mut self, query: WorldQuery) -> Result<Vec<WorldSummary>, Problem> {
        let after = self.place.after.as_deref().map(str::parse).transpose()?;
        let page = self.universe.ops().find_worlds(query, after, PAGE_ROWS).await?;
        self.go_on(page.next.map(|next| next.to_string()));
        Ok(page.items)
    }

    /// The conditions as a query for worlds; `None` if no world can fit.
    async fn world_query(&self) -> Result<Option<WorldQuery>, Problem> {
        let mut query = WorldQuery { world: self.given.world("world"), ..WorldQuery::default() };
        query.filter.parent = self.given.world("parent");
        query.state = self.given.text("state").and_then(ListedState::from_name);
        query.manifests = self.given.text("manifest").and_then(|hash| hash.parse().ok()).map(|hash| [hash].into());
        if let (Some(name), None) = (self.given.text("name"), query.world) {
            let Ok(name) = name.parse::<WorldName>() else { return Ok(None) };
            query.world = self.universe.ops().world_named(&name).await?;
            if query.world.is_none() {
                return Ok(None);
            }
        }
        (query.name_from, query.name_before) = self.given.names();
        let ((created_from, created_before), (active_from, active_before)) =
            (self.given.times("created_at"), self.given.times("active_at"));
        (query.created_from_ns, query.created_before_ns) = (created_from, created_before);
        (query.active_from_ns, query.active_before_ns) = (active_from, active_before);
        let is_empty = |from: Option<u64>, before: Option<u64>| from.zip(before).is_some_and(|(from, end)| from >= end);
        if is_empty(created_from, created_before) || is_empty(active_from, active_before) {
            return Ok(None);
        }
        // The other indexes narrow more down.
        let is_found = query.world.is_some()
            || query.filter.parent.is_some()
            || query.manifests.is_some()
            || query.name_from.is_some()
            || query.name_before.is_some();
        if !is_found && (created_from.is_some() || created_before.is_some()) {
            query.order = WorldOrder::Created;
        } else if !is_found && (active_from.is_some() || active_before.is_some()) {
            query.order = WorldOrder::Active;
        }
        Ok(Some(query))
    }

    async fn worlds(&mut self) -> Result<Vec<Row>, Problem> {
        let Some(mut query) = self.world_query().await? else {
            self.go_on(None);
            return Ok(Vec::new());
        };
        let is_by_time = matches!(query.order, WorldOrder::Created | WorldOrder::Active)
            && query.state.is_none_or(|it| it == ListedState::Deleting);
        if self.place.is_at_deleting {
            (query.order, query.state) = (WorldOrder::Id, Some(ListedState::Deleting));
        }
        let found = self.found(query).await?;
        if self.place.is_over && is_by_time && !self.place.is_at_deleting {
            (self.place.is_over, self.place.is_at_deleting) = (false, true);
        }
        let waits = self.columns.has(self.table, "waits");
        Ok(worlds::shown(&self.universe, found, waits).await?.iter().map(of_world).collect())
    }

    async fn lineage(&mut self) -> Result<Vec<Row>, Problem> {
        let rows = self.worlds().await?;
        Ok(rows.into_iter().filter(|row| row.get("parent").is_some_and(|parent| !parent.is_null())).collect())
    }

    async fn labels(&mut self) -> Result<Vec<Row>, Problem> {
        let mut query = WorldQuery { world: self.given.world("world"), ..WorldQuery::default() };
        let value = self.given.text("value").map(str::to_owned);
        query.labels = self.given.text("key").map(|key| (key.to_owned(), value)).into_iter().collect();
        let mut rows = Vec::new();
        for WorldSummary { world, meta, .. } in self.found(query).await? {
            let labels = meta.labels.iter().flat_map(mundi_model::Labels::iter);
            rows.extend(
                labels
                    .map(|(key, value)| row(&json!({ "world": world, "name": meta.name, "key": key, "value": value }))),
            );
        }
        Ok(rows)
    }

    async fn effects(&mut self) -> Result<Vec<Row>, Problem> {
        let after = self.place.after.as_deref().map(str::parse).transpose()?;
        let (found, next) = match self.given.text("effect").map(str::parse) {
            Some(Ok(effect)) => self.effect(effect, after).await?,
            Some(Err(_)) => (Vec::new(), None), // a text that is no id is in no row
            None => {
                let (world, kind) = (self.given.world("world"), self.given.text("kind"));
                // A withdrawn effect is at any stage.
                let stage = self.given.text("stage").and_then(|stage| effects::stage_called(stage).ok());
                let page = self.universe.ops().list_effects_at(stage, world, kind, after, PAGE_ROWS).await?;
                (page.items, page.next)
            }
        };
        self.go_on(next.map(|next| next.to_string()));
        let items: Vec<effects::Effect> = found.into_iter().map(effects::Effect::from).collect();
        Ok(with_names(&self.universe, items).await?.iter().map(row).map(with_name_column).collect())
    }

    /// A part of the search for an effect: of the queues of each kind only the shard is read that its id lies in.
    async fn effect(
        &self,
        effect: IntentHash,
        after: Option<EffectPlace>,
    ) -> Result<(Vec<QueuedEffect>, Option<EffectPlace>), Problem> {
        Ok(match self.universe.ops().look_for_effect(effect, after, limits::LIST_ITEMS_MAX).await? {
            FoundPlace::Here(found) => (vec![*found], None),
            FoundPlace::NotYet(place) => (Vec::new(), Some(place)),
            FoundPlace::Nowhere => (Vec::new(), None),
        })
    }

    async fn attempts(&mut self) -> Result<Vec<Row>, Problem> {
        let mut rows = Vec::new();
        for effect in self.effects().await? {
            for failed in effect.get("failed").and_then(Value::as_array).into_iter().flatten() {
                let mut attempt = row(failed);
                for column in ["effect", "world", "name", "kind"] {
                    attempt.insert(column.to_owned(), effect.get(column).cloned().unwrap_or(Value::Null));
                }
                rows.push(attempt);
            }
        }
        Ok(rows)
    }

    async fn timers(&mut self) -> Result<Vec<Row>, Problem> {
        let (world, after) = (self.given.world("world"), self.place.after.as_deref().map(timers::place).transpose()?);
        let Page { items, next } = self.universe.ops().list_timers(world, after, PAGE_ROWS).await?;
        self.go_on(next.map(|place| format!("{}.{}", place.place_ns, place.intent)));
        let items: Vec<timers::Timer> = items.into_iter().map(timers::Timer::from).collect();
        Ok(with_names(&self.universe, items).await?.iter().map(row).map(with_name_column).collect())
    }

    /// The letter that a condition names.
    async fn dead_letter(&mut self) -> Result<Vec<Row>, Problem> {
        self.go_on(None);
        let Some(Ok((queue, seq))) = self.given.text("letter").map(dead_letters::place) else { return Ok(Vec::new()) };
        let letter = match self.universe.ops().read_dead_letter(queue, seq).await {
            Err(error) if error.code() == Code::DeadLetterNotFound => return Ok(Vec::new()),
            letter => with_name(&self.universe, dead_letters::Letter::new(queue, seq, letter?)).await?,
        };
        let mut row = with_name_column(row(&letter));
        row.insert("queue".to_owned(), queue.name().into());
        Ok(vec![row])
    }

    async fn dead_letters(&mut self) -> Result<Vec<Row>, Problem> {
        if self.given.text("letter").is_some() {
            return self.dead_letter().await;
        }
        let world = self.given.world("world");
        let wanted = self.given.text("queue").map(str::to_owned);
        let (queue, after): (Queue, Option<QueueSeq>) = match self.place.after.as_deref() {
            Some(after) => match after.split_once('.') {
                Some((queue, "")) => (dead_letters::queue(queue)?, None),
                _ => dead_letters::place(after).map(|(queue, seq)| (queue, Some(seq)))?,
            },
            None => match &wanted {
                Some(name) => match dead_letters::queue(name) {
                    Ok(queue) => (queue, None),
                    Err(_) => {
                        self.go_on(None);
                        return Ok(Vec::new());
                    }
                },
                None => (dead_letters::QUEUES[0], None),
            },
        };
        let page = self.universe.ops().list_dead_letters(queue, world, after, PAGE_ROWS).await?;
        let following = dead_letters::QUEUES.into_iter().skip_while(|other| *other != queue).nth(1);
        let following = following.filter(|_| wanted.is_none()).map(|queue| format!("{}.", queue.name()));
        self.go_on(page.next.map(|next| dead_letters::address(queue, next)).or(following));
        let letters = page.items.into_iter().map(|found| dead_letters::Letter::new(queue, found.seq, found.letter));
        let letters = with_names(&self.universe, letters.collect()).await?;
        let with_queue = |mut row: Row| {
            row.insert("queue".to_owned(), queue.name().into());
            row
        };
        Ok(letters.iter().map(row).map(with_name_column).map(with_queue).collect())
    }

    async fn leases(&mut self) -> Result<Vec<Row>, Problem> {
        let holder = match self.given.text("holder").map(str::parse) {
            Some(Err(_)) => {
                self.go_on(None);
                return Ok(Vec::new());
            }
            holder => holder.and_then(Result::ok),
        };
        let after = self.place.after.as_deref().map(str::parse).transpose()?;
        let page = match self.given.world("world") {
            Some(world) => self.lease_of(world).await?,
            None => self.universe.ops().list_leases(holder, after, PAGE_ROWS).await?,
        };
        self.go_on(page.next.map(|next| next.to_string()));
        let leases = page.items.into_iter().map(workers::Lease::from).collect();
        Ok(with_names(&self.universe, leases).await?.iter().map(row).map(with_name_column).collect())
    }

    async fn lease_of(&self, world: WorldId) -> Result<Page<(WorldId, HeldLease), WorldId>, Problem> {
        let query = WorldQuery { world: Some(world), ..WorldQuery::default() };
        let Page { items, .. } = self.universe.ops().find_worlds(query, None, 1).await?;
        let items = items.into_iter().filter_map(|found| Some((found.world, found.lease?))).collect();
        Ok(Page { items, next: None })
    }

    async fn workers(&mut self) -> Result<Vec<Row>, Problem> {
        self.go_on(None);
        Ok(workers::all(&self.universe).await?.iter().map(row).collect())
    }
}

impl Reading {
    /// A page of the first world that is left.
    async fn of_each_world(&mut self) -> Result<Vec<Row>, Problem> {
        let Some((world, name)) = self.first_world().await? else {
            self.place.is_over = true;
            return Ok(Vec::new());
        };
        let page = match self.table.name {
            "journal" => self.records(world).await,
            "cells" => self.cells(world).await,
            "children" => self.children(world).await,
            "functions" => self.functions(world).await,
            _ => self.snapshots(world).await,
        };
        let (rows, next) = match page {
            // Deleted meanwhile, or an id of no world here.
            Err(problem) if self.given.text("of").is_none() && is_gone(problem.code) => (Vec::new(), None),
            page => page?,
        };
        if next.is_none() {
            self.place.worlds.as_mut().and_then(VecDeque::pop_front);
        }
        self.place.within = next;
        let of_world = |mut row: Row| {
            row.insert("world".to_owned(), world.to_string().into());
            row.insert("name".to_owned(), name.clone().into());
            row
        };
        Ok(rows.into_iter().map(of_world).collect())
    }

    async fn first_world(&mut self) -> Result<Option<(WorldId, Option<String>)>, Problem> {
        if self.place.worlds.is_none() {
            // An argument names a world that has to be there; a column is compared with those that are.
            let one = match self.given.text("of") {
                Some(name) => Some(world_of(&self.universe, name).await?),
                None => self.given.world("world"),
            };
            if let Some(world) = one {
                let name = self.universe.ops().names_of_worlds([world].into()).await?.remove(&world);
                (self.place.worlds, self.place.worlds_are_over) = (Some([(world, name)].into()), true);
            }
        }
        loop {
            if let Some(first) = self.place.worlds.as_ref().and_then(VecDeque::front) {
                return Ok(Some(first.clone()));
            }
            if self.place.worlds_are_over {
                return Ok(None);
            }
            let after = self.place.worlds_after.take();
            let page = self.universe.ops().find_worlds(WorldQuery::default(), after, PAGE_ROWS).await?;
            self.place.worlds_are_over = page.next.is_none();
            self.place.worlds_after = page.next;
            let readable = page.items.into_iter().filter(|found| !found.meta.state.is_gone());
            self.place.worlds = Some(readable.map(|found| (found.world, found.meta.name)).collect());
        }
    }

    async fn records(&self, world: WorldId) -> Result<(Vec<Row>, Option<String>), Problem> {
        let (from, end) = self.given.heights();
        let from = self.place.within.as_deref().and_then(|from| from.parse().ok()).unwrap_or(from);
        let head = self.universe.ops().describe_world(world).await?.head.map_or(0, |head| head.height.get());
        if from >= end.min(head) {
            return Ok((Vec::new(), None));
        }
        let page = self.universe.ops().world_journal(world, Height::new(from), PAGE_ROWS).await?;
        let rows = page.items.iter().map(|record| {
            let whole = row(&shown::record(record));
            let mut row = Row::new();
            for column in ["height", "type", "hash"] {
                row.insert(column.to_owned(), whole.get(column).cloned().unwrap_or(Value::Null));
            }
            row.insert("record".to_owned(), Value::Object(whole));
            row
        });
        let next = page.next.map(Height::get).filter(|next| *next < end);
        Ok((rows.collect(), next.map(|next| next.to_string())))
    }

    async fn cells(&self, world: WorldId) -> Result<(Vec<Row>, Option<String>), Problem> {
        let at = At { world, height: self.given.number("at").map(Height::new) };
        let cell = |key: &str, bytes: &[u8]| row(&json!({ "key": key, "value": shown::bytes(bytes) }));
        if let Some(key) = self.given.text("key") {
            let found = self.universe.ops().world_cell(at, key).await?;
            return Ok((found.iter().map(|bytes| cell(key, bytes)).collect(), None));
        }
        let page = limits::LIST_ITEMS_MAX;
        let found = self.universe.ops().world_cells(at, "", self.place.within.as_deref(), page).await?;
        // A scan may end early because of its bytes, so a page that is not empty is followed by another read.
        let next = found.last().map(|(key, _)| key.clone());
        Ok((found.iter().map(|(key, bytes)| cell(key, bytes)).collect(), next))
    }

    async fn children(&self, world: WorldId) -> Result<(Vec<Row>, Option<String>), Problem> {
        let after = self.place.within.as_deref().and_then(|seq| seq.parse().ok());
        let tokens = self.universe.ops().children(world, after, PAGE_ROWS).await?;
        let next = tokens.last().filter(|_| tokens.len() == PAGE_ROWS).map(|last| last.queue_seq.to_string());
        let rows = tokens.into_iter().map(|token| row(&children::Child::from(token)));
        Ok((rows.collect(), next))
    }

    async fn functions(&self, world: WorldId) -> Result<(Vec<Row>, Option<String>), Problem> {
        let at = At { world, height: self.given.number("at").map(Height::new) };
        let (function, after) = (self.given.text("function"), self.place.within.clone());
        let (found, next) = functions::instances(&self.universe, at, function, after, PAGE_ROWS).await?;
        Ok((found.iter().map(row).collect(), next))
    }

    async fn snapshots(&self, world: WorldId) -> Result<(Vec<Row>, Option<String>), Problem> {
        let below = self.place.within.as_deref().and_then(|height| height.parse().ok()).map(Height::new);
        let Page { items, next } = self.universe.ops().list_snapshots(world, below, PAGE_ROWS).await?;
        let rows = items.iter().map(|note| row(&shown::Snapshot::from(note)));
        Ok((rows.collect(), next.map(|next| next.get().to_string())))
    }
}
