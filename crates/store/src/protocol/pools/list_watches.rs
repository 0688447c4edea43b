//! Which pools are watched, and how. Only reads.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        pool::{self, PoolRecord},
        pool_watch,
        queue_notify::{self, POOL_WATCHES, Seen},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName, limits, watch::WatchPolicy};

/// All pools of a universe that have a policy, by name.
#[derive(Debug, Clone, Copy)]
pub struct ListWatches {
    pub universe: UniverseId,
}

#[derive(Debug, Clone)]
pub struct Watches {
    pub pools: Vec<WatchedPool>,
    /// A policy that is set later changes it.
    pub seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPool {
    pub name: String,
    pub record: PoolRecord,
    pub policy: WatchPolicy,
}

impl Protocol for ListWatches {
    type Output = Watches;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Watches, StoreError> {
        let universe = self.universe;
        let seen = queue_notify::read(tx, universe, POOL_WATCHES).await?;
        let found = tx.range(pool_watch::prefix(universe).span().read(limits::POOLS_MAX)).await?;
        let mut pools = Vec::new();
        for (key, value) in &found.items {
            let name = pool_watch::parse(universe, key)?;
            let policy = decode_value(Family::PoolWatch, key, value)?;
            if let Some(record) = pool::read(tx, universe, &name).await? {
                pools.push(WatchedPool { name, record, policy });
            }
        }
        Ok(Watches { pools, seen })
    }
}

/// The policy of one pool, if it has one.
#[derive(Debug, Clone)]
pub struct FindWatch {
    pub universe: UniverseId,
    pub name: WorldName,
}

impl Protocol for FindWatch {
    type Output = Option<WatchPolicy>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<WatchPolicy>, StoreError> {
        pool_watch::read(tx, self.universe, self.name.as_str()).await
    }
}
