//! Append a batch to the journal, without a turn.
//!
//! Guarantees: heights are contiguous and chained, a batch is visible whole or not at all, and only the holder
//! of the lease appends. A head that moved is `HEAD_ADVANCED` with both heights.
//! Unknown commit: run again; a head that stands at the end of this batch, with its chain hash, means that the
//! first run was applied.

use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::{
        Batch,
        append::{self, Appending},
    },
    keyspace::journal_head::{self, JournalHead, Position},
};
use mundi_engine::Transaction;

#[derive(Debug, Clone)]
pub struct AppendBatch {
    pub fence: Fence,
    pub batch: Batch,
}

impl Protocol for AppendBatch {
    /// The new head.
    type Output = JournalHead;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<JournalHead, StoreError> {
        self.fence.check(tx).await?;
        let Fence { universe, world, .. } = self.fence;
        let before = append::position(tx, universe, world).await?;
        if append::plan(before.head, &self.batch)? == Appending::Write {
            self.batch.write(tx, universe, world)?;
            journal_head::write(tx, universe, world, Position { head: self.batch.end(), ..before })?;
        }
        Ok(self.batch.end())
    }
}
