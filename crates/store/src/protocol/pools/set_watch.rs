//! Set the policy by which watchers look at a pool, or remove it.
//!
//! Guarantees: the pool exists and has this policy, or none; watchers are told.
//! Unknown commit: run again; it is idempotent.

use super::PoolError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{pool, pool_watch, queue_notify},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName, watch::WatchPolicy};

#[derive(Debug, Clone)]
pub struct SetWatch {
    pub universe: UniverseId,
    pub name: WorldName,
    /// `None`: no watcher looks at it.
    pub policy: Option<WatchPolicy>,
}

impl Protocol for SetWatch {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, name, policy } = self;
        if pool::read(tx, *universe, name.as_str()).await?.is_none() {
            return Err(PoolError::NotFound(name.to_string()).into());
        }
        match policy {
            Some(policy) => pool_watch::write(tx, *universe, name.as_str(), policy)?,
            None => tx.delete(pool_watch::key(*universe, name.as_str()).as_bytes())?,
        }
        queue_notify::bump(tx, *universe, queue_notify::POOL_WATCHES)
    }
}
