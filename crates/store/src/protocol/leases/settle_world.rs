//! Settle a world: take back its ready hint, because there is nothing left to do.
//!
//! Guarantees: the hint goes only if nothing waits. The inbox after the cursor is read with a conflict, so an item
//! that is enqueued meanwhile makes this commit conflict and keeps its hint.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::require_world;
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::append,
    keyspace::{inbox_entry, ready},
};
use mundi_engine::Transaction;

#[derive(Debug, Clone, Copy)]
pub struct SettleWorld {
    pub fence: Fence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Idle,
    /// Items wait; the hint stays.
    Busy,
}

impl Protocol for SettleWorld {
    type Output = Settled;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Settled, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let cursor = append::position(tx, universe, world).await?.cursor;
        let waiting = tx.range(inbox_entry::after(universe, world, cursor).read(1)).await?;
        if !waiting.items.is_empty() {
            return Ok(Settled::Busy);
        }
        let meta = require_world(tx, universe, world).await?;
        ready::remove(tx, universe, world, meta.ready_priority())?;
        Ok(Settled::Idle)
    }
}
