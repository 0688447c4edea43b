//! Read inbox items beyond those that a turn starts from: a paused world's host looks for commands there.
//!
//! Guarantees: as `read_turn`, from a place that was seen before instead of the cursor.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::{TurnItem, read_turn::items_after};
use crate::{Fence, OnUnknown, Protocol, StoreError};
use mundi_engine::Transaction;
use mundi_model::InboxSeq;

#[derive(Debug, Clone, Copy)]
pub struct ReadAhead {
    pub fence: Fence,
    pub after: InboxSeq,
    pub items_max: usize,
    pub bytes_max: usize,
}

/// A page of an inbox.
#[derive(Debug, Clone)]
pub struct Ahead {
    pub items: Vec<TurnItem>,
    pub more: bool,
}

impl Protocol for ReadAhead {
    type Output = Ahead;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Ahead, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let after = Some(self.after);
        let (items, more) = items_after(tx, universe, world, after, self.items_max, self.bytes_max).await?;
        Ok(Ahead { items, more })
    }
}
