//! Read the worlds of a shard that have something to do (seed 000, section 8).
//!
//! Guarantees: the counter is read before the hints, so a hint that is written afterwards changes it. Adds no
//! conflict: hints are only hints.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Shard, ready, ready_notify},
};
use mundi_engine::{Read, Transaction};
use mundi_model::{UniverseId, WorldId, limits};

#[derive(Debug, Clone, Copy)]
pub struct ReadReady {
    pub universe: UniverseId,
    pub shard: Shard,
    /// Continues after this hint.
    pub after: Option<(u8, WorldId)>,
    pub items_max: usize,
}

#[derive(Debug, Clone)]
pub struct ReadyPage {
    /// For [`ready_notify::changed`].
    pub seen: ready_notify::Seen,
    /// By priority, smaller first.
    pub worlds: Vec<(u8, WorldId)>,
    pub more: bool,
}

impl Protocol for ReadReady {
    type Output = ReadyPage;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ReadyPage, StoreError> {
        let Self { universe, shard, after, items_max } = *self;
        let all = ready::prefix(universe, shard).span();
        let span = match after {
            Some((priority, world)) => all.after(&ready::key(universe, priority, world)),
            None => all,
        };
        let read = span.read(items_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot();
        tx.announce(|| [ready_notify::key(universe, shard).announced(), Read::Range(read.clone())]);
        let seen = ready_notify::read(tx, universe, shard).await?;
        let page = tx.range(read).await?;
        let worlds = page.items.iter().map(|(key, _)| ready::parse(universe, shard, key)).collect::<Result<_, _>>()?;
        Ok(ReadyPage { seen, worlds, more: page.more })
    }
}
