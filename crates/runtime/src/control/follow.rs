//! Waiting until something durable changes, from whatever process changes it: the head of a journal, a queue of effects, the quotas
//! of a universe, a token. A caller that waits reads first, looks at what follows from it, and then waits for the next change.

use super::Ops;
use crate::{Plane, RuntimeError};
use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use mundi_engine::{Engine, EngineError, Transaction};
use mundi_model::{UniverseId, WorldId};
use mundi_store::{
    StoreError,
    keyspace::{
        journal_head,
        queue_notify::{self, Seen},
        quotas, token,
        world_change::{self, WorldChanges},
    },
    values::{Position, Quotas, TokenId, TokenRecord},
};
use std::collections::BTreeSet;

/// The head of a journal as it was read.
pub struct SeenHead {
    seen: Option<Bytes>,
    /// Of a world that is there.
    pub position: Option<Position>,
}

/// The quotas of a universe as they were read.
pub struct SeenQuotas {
    seen: Option<Bytes>,
    /// The quotas that were set for the universe.
    pub quotas: Option<Quotas>,
}

/// A change in a universe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniverseChange {
    /// A world was created, deleted, named or labelled, or its state changed.
    Worlds,
    DeadLetters,
    /// A worker came, drained or went.
    Workers,
    /// A timer was set.
    Timers,
}

impl UniverseChange {
    pub const ALL: [Self; 4] = [Self::Worlds, Self::DeadLetters, Self::Workers, Self::Timers];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worlds => "worlds",
            Self::DeadLetters => "dead_letters",
            Self::Workers => "workers",
            Self::Timers => "timers",
        }
    }

    /// The counter that says so.
    const fn counter(self) -> &'static str {
        match self {
            Self::Worlds => queue_notify::WORLDS,
            Self::DeadLetters => queue_notify::DEAD_LETTERS,
            Self::Workers => queue_notify::WORKERS,
            Self::Timers => queue_notify::TIMERS,
        }
    }
}

/// The counters of a universe as they were read, and the worlds that changed last.
#[derive(Debug, Clone)]
pub struct SeenUniverse {
    counters: Vec<(UniverseChange, Seen)>,
    worlds: WorldChanges,
}

/// The changes between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesSince {
    pub changed: Vec<UniverseChange>,
    /// Worlds that changed.
    pub worlds: BTreeSet<WorldId>,
    /// More worlds may have changed than are named.
    pub more_worlds: bool,
}

impl ChangesSince {
    /// For a reader that has not looked before.
    pub fn everything() -> Self {
        Self { changed: UniverseChange::ALL.to_vec(), worlds: BTreeSet::new(), more_worlds: true }
    }
}

impl SeenUniverse {
    pub fn since(&self, before: &Self) -> ChangesSince {
        let changed = self.counters.iter().filter(|now| !before.counters.contains(now));
        let changed = changed.map(|(change, _)| *change).collect();
        let worlds = self.worlds.iter().filter(|(slot, change)| before.worlds.get(slot) != Some(change));
        let worlds: BTreeSet<WorldId> = worlds.map(|(_, change)| change.world).collect();
        let seen = |of: &Self| {
            let found = of.counters.iter().find(|(change, _)| *change == UniverseChange::Worlds);
            found.map(|(_, seen)| seen.clone())
        };
        let changes = match (seen(self), seen(before)) {
            (Some(now), Some(before)) => now.raised_since(&before),
            _ => u64::MAX,
        };
        ChangesSince { changed, more_worlds: changes > worlds.len() as u64, worlds }
    }
}

impl<P: Plane> Ops<P> {
    /// The counters of the universe. Read them before looking at the things that they count.
    pub async fn seen_universe(&self) -> Result<SeenUniverse, RuntimeError> {
        let mut tx = self.plane.engine().begin().await?;
        let counters = UniverseChange::ALL.iter().map(|change| change.counter());
        let seen = queue_notify::read_all(&mut tx, self.universe, counters).await?;
        let counters = UniverseChange::ALL.into_iter().zip(seen.into_iter().map(|(_, seen)| seen)).collect();
        Ok(SeenUniverse { counters, worlds: world_change::read_all(&mut tx, self.universe).await? })
    }

    /// Completes once something changed since; perhaps earlier.
    pub async fn universe_changed(&self, seen: &SeenUniverse) -> Result<(), RuntimeError> {
        let (engine, universe) = (self.plane.engine(), self.universe);
        let watch = |(change, seen): &(UniverseChange, Seen)| {
            queue_notify::changed(engine, universe, change.counter(), seen.clone())
        };
        match seen.counters.iter().map(watch).collect::<FuturesUnordered<_>>().next().await {
            Some(changed) => Ok(changed?),
            None => Ok(()),
        }
    }

    /// Where a world's journal ends. Everything that a turn does moves it.
    pub async fn seen_head(&self, world: WorldId) -> Result<SeenHead, RuntimeError> {
        let key = journal_head::key(self.universe, world);
        let seen = self.plane.engine().begin().await?.get(key.as_bytes()).await?;
        let position = seen.as_ref().map(|bytes| journal_head::decode(key.as_bytes(), bytes)).transpose()?;
        Ok(SeenHead { seen, position })
    }

    /// Completes once the journal has grown since; perhaps earlier.
    pub async fn head_changed(&self, world: WorldId, head: SeenHead) -> Result<(), RuntimeError> {
        let key = journal_head::key(self.universe, world);
        Ok(self.plane.engine().watch(key.as_bytes(), head.seen).await?)
    }

    /// The queues of these kinds of effects. Read it before the queues themselves: what is queued afterwards is waited for.
    pub async fn seen_queues<'k>(&self, kinds: &'k [String]) -> Result<Vec<(&'k str, Seen)>, RuntimeError> {
        let mut tx = self.plane.engine().begin().await?;
        Ok(queue_notify::read_all(&mut tx, self.universe, kinds.iter().map(String::as_str)).await?)
    }

    /// Completes once an effect of the kind was queued since; perhaps earlier.
    pub fn queue_changed(
        &self,
        kind: &str,
        seen: Seen,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
        queue_notify::changed(self.plane.engine(), self.universe, kind, seen)
    }
}

/// The quotas that were set for a universe.
pub async fn seen_quotas<E: Engine>(engine: &E, universe: UniverseId) -> Result<SeenQuotas, StoreError> {
    let mut tx = engine.begin().await?;
    let seen = tx.get_snapshot(quotas::key(universe).as_bytes()).await?;
    Ok(SeenQuotas { seen, quotas: quotas::read(&mut tx, universe).await? })
}

/// Completes once the quotas were set anew since; perhaps earlier.
pub async fn quotas_changed<E: Engine>(engine: &E, universe: UniverseId, seen: SeenQuotas) -> Result<(), EngineError> {
    engine.watch(quotas::key(universe).as_bytes(), seen.seen).await
}

pub async fn read_token<E: Engine>(engine: &E, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
    token::read(&mut engine.begin().await?, id).await
}

/// Completes when the token is not there any more.
pub async fn token_revoked<E: Engine>(engine: &E, id: TokenId) -> Result<(), EngineError> {
    let key = token::key(id);
    loop {
        let record = engine.begin().await?.get_snapshot(key.as_bytes()).await?;
        if record.is_none() {
            return Ok(());
        }
        engine.watch(key.as_bytes(), record).await?;
    }
}

/// Whether the engine answers. It reads, because an engine may send nothing before it.
pub async fn engine_answers<E: Engine>(engine: &E) -> Result<(), StoreError> {
    engine.begin().await?.get_snapshot(b"readyz").await?; // no key of a layer is so short
    Ok(())
}
