//! Move an inbox cursor without journaling (under the fence).
//!
//! Guarantees: only the holder of the lease moves it, from where it was seen, forward. The counters of the inbox
//! follow. It loses what it skips, so it is for an operator's "drop these", and for a turn that
//! finds nothing but commands which a paused world has journaled ahead.
//! Unknown commit: run again; a cursor that stands at the target was moved by the first run.

use crate::protocol::{InboxError, commit_turn::plan_cursor};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::append,
    keyspace::{
        Span,
        inbox_depth::{self, Depth},
        inbox_entry,
        journal_head::{self, Position},
    },
};
use mundi_engine::Transaction;
use mundi_model::{InboxSeq, limits};

#[derive(Debug, Clone, Copy)]
pub struct CommitCursor {
    pub fence: Fence,
    pub old: Option<InboxSeq>,
    pub new: InboxSeq,
}

impl Protocol for CommitCursor {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let position = append::position(tx, universe, world).await?;
        let actual = position.cursor;
        if actual == Some(self.new) && self.old < actual {
            return Ok(());
        }
        plan_cursor(self.old, actual, self.new)?;
        let skipped = self.skipped(tx).await?;
        journal_head::write(tx, universe, world, Position { cursor: Some(self.new), ..position })?;
        inbox_depth::subtract(tx, universe, world, skipped)
    }
}

impl CommitCursor {
    async fn skipped<T: Transaction>(&self, tx: &mut T) -> Result<Depth, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let end = inbox_entry::key(universe, world, self.new).successor();
        let span = Span { end, ..inbox_entry::after(universe, world, self.old) };
        let page = tx.range(span.read(limits::TURN_ITEMS_MAX).snapshot()).await?;
        if page.more {
            return Err(InboxError::BatchInvalid { items: page.items.len(), max: limits::TURN_ITEMS_MAX }.into());
        }
        let depth =
            |(key, bytes): &(bytes::Bytes, bytes::Bytes)| Ok(Depth::of(&inbox_entry::decode(key, bytes)?, bytes.len()));
        page.items.iter().map(depth).sum()
    }
}
