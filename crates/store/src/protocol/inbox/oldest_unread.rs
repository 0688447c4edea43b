//! When the oldest item was enqueued that waits behind a world's cursor.
//!
//! Guarantees: one moment, read from the cursor, without a conflict.
//! Unknown commit: cannot be; it writes nothing.

use crate::{OnUnknown, Protocol, StoreError, journal::append, keyspace::inbox_entry};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct OldestUnread {
    pub universe: UniverseId,
    pub world: WorldId,
}

impl Protocol for OldestUnread {
    /// `None` if nothing waits, or if its sender did not say when it sent it.
    type Output = Option<u64>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<u64>, StoreError> {
        let Self { universe, world } = *self;
        let cursor = append::position(tx, universe, world).await?.cursor;
        let waiting = tx.range(inbox_entry::after(universe, world, cursor).read(1).snapshot()).await?;
        let oldest = waiting.items.first().map(|(key, bytes)| inbox_entry::decode(key, bytes)).transpose()?;
        Ok(oldest.map(|item| item.origin.enqueued_at_ns).filter(|enqueued_at_ns| *enqueued_at_ns > 0))
    }
}
