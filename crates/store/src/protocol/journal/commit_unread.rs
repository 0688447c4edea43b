//! Commit a turn that has not looked into the inbox, because its process remembers it as drained.
//!
//! Guarantees: as `commit_turn`, and nothing was enqueued between the version that was remembered and this commit. So what was
//! acknowledged before an item was handed to the world stands before it, whoever acknowledged it. If something was
//! enqueued, nothing is written, and the turn is made again with it.
//! Unknown commit: as `commit_turn`; a run that was applied is recognized also if the inbox has grown since.

use crate::protocol::{CommitTurn, InboxEnd, InboxError, TurnCommitted};
use crate::{Fence, OnUnknown, Protocol, StoreError, journal::append, keyspace::notify};
use mundi_engine::Transaction;

#[derive(Debug)]
pub struct CommitUnread<'a> {
    pub turn: &'a CommitTurn,
    /// That the inbox was drained.
    pub end: &'a InboxEnd,
}

impl Protocol for CommitUnread<'_> {
    type Output = TurnCommitted;

    fn on_unknown(&self) -> OnUnknown {
        self.turn.on_unknown()
    }

    fn tries_memory(&self) -> bool {
        true
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<TurnCommitted, StoreError> {
        let Fence { universe, world, .. } = self.turn.fence;
        tx.announce(|| [notify::key(universe, world).announced()]);
        let is_grown = notify::depend(tx, universe, world).await? != *self.end.notify();
        if is_grown && append::position(tx, universe, world).await?.head != self.turn.records.end() {
            return Err(InboxError::Grown { world }.into());
        }
        self.turn.run(tx).await // which knows if a run before this one was applied
    }
}
