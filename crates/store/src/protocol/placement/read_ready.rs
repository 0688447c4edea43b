//! Read the worlds of some shards that have work.
//!
//! Guarantees: the counter is read before the hints, so a hint that is written afterwards changes it. Adds no
//! conflict: hints are only hints.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Shard, ready, ready_notify, world_meta},
};
use mundi_engine::{RangeRead, Read, ReadPlan, Transaction};
use mundi_model::{UniverseId, WorldId, limits};

#[derive(Debug, Clone)]
pub struct ReadReady {
    pub universe: UniverseId,
    /// Each with the hint after which it is continued.
    pub shards: Vec<(Shard, Option<(u8, WorldId)>)>,
    /// Of each shard.
    pub items_max: usize,
}

#[derive(Debug, Clone)]
pub struct ReadyPage {
    pub shard: Shard,
    /// For [`ready_notify::changed`].
    pub seen: ready_notify::Seen,
    /// By priority, smaller first.
    pub worlds: Vec<(u8, WorldId)>,
    pub more: bool,
}

/// The counters of all shards: the hints of a shard whose counter has not risen are those that were read before, or fewer.
#[derive(Debug, Clone, Copy)]
pub struct ReadReadyCounters {
    pub universe: UniverseId,
}

impl Protocol for ReadReadyCounters {
    type Output = Vec<(Shard, ready_notify::Seen)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(Shard::all().map(|shard| ready_notify::key(self.universe, shard).planned()))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let mut counters = Vec::new();
        for shard in Shard::all() {
            counters.push((shard, ready_notify::read(tx, self.universe, shard).await?));
        }
        Ok(counters)
    }
}

/// Whether one world has work.
#[derive(Debug, Clone, Copy)]
pub struct IsReady {
    pub universe: UniverseId,
    pub world: WorldId,
}

impl Protocol for IsReady {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let Self { universe, world } = *self;
        let usual = ready::key(universe, ready::PRIORITY_NORMAL, world);
        ReadPlan::reads([world_meta::key(universe, world), usual].map(|key| key.planned()))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, world } = *self;
        let priority = require_world(tx, universe, world).await?.ready_priority();
        Ok(tx.get_snapshot(ready::key(universe, priority, world).as_bytes()).await?.is_some())
    }
}

impl ReadReady {
    fn hints(&self, &(shard, after): &(Shard, Option<(u8, WorldId)>)) -> RangeRead {
        let all = ready::prefix(self.universe, shard).span();
        let rest = match after {
            Some((priority, world)) => all.after(&ready::key(self.universe, priority, world)),
            None => all,
        };
        rest.read(self.items_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()
    }
}

impl Protocol for ReadReady {
    type Output = Vec<ReadyPage>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let counter = |(shard, _): &(Shard, _)| ready_notify::key(self.universe, *shard).planned();
        ReadPlan::reads(self.shards.iter().flat_map(|shard| [counter(shard), Read::Range(self.hints(shard))]))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<ReadyPage>, StoreError> {
        let universe = self.universe;
        let mut pages = Vec::with_capacity(self.shards.len());
        for of_shard in &self.shards {
            let shard = of_shard.0;
            let seen = ready_notify::read(tx, universe, shard).await?;
            let page = tx.range(self.hints(of_shard)).await?;
            let worlds = page.items.iter().map(|(key, _)| ready::parse(universe, shard, key));
            pages.push(ReadyPage { shard, seen, worlds: worlds.collect::<Result<_, _>>()?, more: page.more });
        }
        Ok(pages)
    }
}
