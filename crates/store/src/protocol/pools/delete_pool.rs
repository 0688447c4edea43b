//! Forget a pool whose worlds are deleted.
//!
//! Guarantees: the pool is gone, and with it the policy of its watchers. Its name is not free again: the ids of its worlds are never used twice.
//! Unknown commit: run again; it is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{pool, pool_watch},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldName};

#[derive(Debug, Clone)]
pub struct DeletePool {
    pub universe: UniverseId,
    pub name: WorldName,
}

impl Protocol for DeletePool {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        tx.delete(pool_watch::key(self.universe, self.name.as_str()).as_bytes())?;
        Ok(tx.delete(pool::key(self.universe, self.name.as_str()).as_bytes())?)
    }
}
