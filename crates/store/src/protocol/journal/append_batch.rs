//! Append a batch to the journal.
//!
//! Guarantees: heights are contiguous and chained, a batch is visible whole or not at all, and only the holder
//! of the lease appends. A head that moved is `HEAD_ADVANCED` with both heights.
//! Unknown commit: run again; a head that stands at the end of this batch, with its chain hash, means that the
//! first run was applied.

use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::{Batch, append},
    keyspace::journal_head::JournalHead,
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
        append::append(tx, self.fence.universe, self.fence.world, &self.batch).await?;
        Ok(self.batch.end())
    }
}
