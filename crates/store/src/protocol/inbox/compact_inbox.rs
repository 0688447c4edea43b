//! Compact an inbox: remove items, and the replies to them, a grace period after they were consumed.
//!
//! Guarantees: nothing after the cursor is ever touched, and nothing that had not been consumed for the whole grace
//! period. It works in bounded chunks and remembers how far it got, so it can stop anywhere.
//! Unknown commit: run again; the marks tell what is left. A run that was applied and is run again does the next
//! chunk.

use crate::{
    Clock, Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        Span,
        inbox_compaction::{self, Candidate, InboxCompaction},
        inbox_entry, journal_head, reply,
    },
    run,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::InboxSeq;

/// How many items one transaction removes: with the longest keys and their replies far below its bound.
const CHUNK_ITEMS: usize = 2_000;

#[derive(Debug, Clone, Copy)]
pub struct CompactInbox {
    pub fence: Fence,
    pub now_ns: u64,
    pub grace_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compacted {
    /// Nothing may be removed yet.
    Waiting,
    /// Removed a chunk of this many items; there may be another.
    Chunk { items: usize },
}

/// Removes all that may go, chunk by chunk; returns how many items that were.
pub async fn compact_inbox<E: Engine>(
    engine: &E,
    clock: &dyn Clock,
    fence: Fence,
    grace_ns: u64,
) -> Result<usize, StoreError> {
    let mut removed = 0;
    loop {
        let step = CompactInbox { fence, now_ns: clock.now_ns(), grace_ns };
        match run(engine, clock, &step).await?.output {
            Compacted::Waiting => return Ok(removed),
            Compacted::Chunk { items } => removed += items,
        }
    }
}

impl Protocol for CompactInbox {
    type Output = Compacted;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Compacted, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        // It runs beside the world's turns, which move the cursor: an older one only means that less goes.
        let cursor = journal_head::read_snapshot(tx, universe, world).await?.and_then(|position| position.cursor);
        let marks = inbox_compaction::read(tx, universe, world).await?;
        match plan(marks, cursor, self.now_ns, self.grace_ns) {
            Step::Wait => Ok(Compacted::Waiting),
            Step::Mark(candidate) => {
                let marks = InboxCompaction { candidate: Some(candidate), ..marks };
                inbox_compaction::write(tx, universe, world, &marks)?;
                Ok(Compacted::Waiting)
            }
            Step::Remove(through) => self.remove(tx, marks, through).await,
        }
    }
}

impl CompactInbox {
    /// Removes a chunk of `removed_through..=through`.
    async fn remove<T: Transaction>(
        &self,
        tx: &mut T,
        marks: InboxCompaction,
        through: InboxSeq,
    ) -> Result<Compacted, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let start = inbox_entry::after(universe, world, marks.removed_through).start;
        let span = Span { start, end: inbox_entry::key(universe, world, through).successor() };
        let page = tx.range(span.read(CHUNK_ITEMS).snapshot()).await?;
        let reached = match page.items.last() {
            Some((last, _)) if page.more => inbox_entry::parse(universe, world, last)?,
            _ => through,
        };
        let end = inbox_entry::key(universe, world, reached).successor();
        tx.delete_range(span.start.as_bytes(), end.as_bytes())?;
        let replies = reply::through(universe, world, marks.removed_through, reached);
        tx.delete_range(replies.start.as_bytes(), replies.end.as_bytes())?;
        let candidate = marks.candidate.filter(|candidate| candidate.through > reached);
        let marks = InboxCompaction { removed_through: Some(reached), candidate };
        inbox_compaction::write(tx, universe, world, &marks)?;
        Ok(Compacted::Chunk { items: page.items.len() })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    /// Remember that all this is consumed now.
    Mark(Candidate),
    Remove(InboxSeq),
}

/// Two marks give every item its whole grace period without a time on each: what was consumed when the mark
/// was set has waited since then at least.
fn plan(marks: InboxCompaction, cursor: Option<InboxSeq>, now_ns: u64, grace_ns: u64) -> Step {
    match marks.candidate {
        Some(candidate) if now_ns.saturating_sub(candidate.seen_at_ns) >= grace_ns => Step::Remove(candidate.through),
        Some(_) => Step::Wait,
        None => match cursor {
            Some(cursor) if Some(cursor) > marks.removed_through => {
                Step::Mark(Candidate { through: cursor, seen_at_ns: now_ns })
            }
            _ => Step::Wait,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Stamp;

    fn seq(n: u64) -> InboxSeq {
        InboxSeq::new(Stamp::new(n, 0), 0)
    }

    fn marks(removed: Option<u64>, candidate: Option<(u64, u64)>) -> InboxCompaction {
        let candidate = candidate.map(|(through, seen_at_ns)| Candidate { through: seq(through), seen_at_ns });
        InboxCompaction { removed_through: removed.map(seq), candidate }
    }

    #[test]
    fn consumed_items_are_marked_then_removed_after_the_grace() {
        let mark = Step::Mark(Candidate { through: seq(5), seen_at_ns: 100 });
        assert_eq!(plan(marks(None, None), Some(seq(5)), 100, 10), mark);
        assert_eq!(plan(marks(None, Some((5, 100))), Some(seq(8)), 109, 10), Step::Wait);
        assert_eq!(plan(marks(None, Some((5, 100))), Some(seq(8)), 110, 10), Step::Remove(seq(5)));
    }

    #[test]
    fn nothing_is_marked_twice_or_before_it_is_consumed() {
        assert_eq!(plan(marks(None, None), None, 100, 0), Step::Wait);
        assert_eq!(plan(marks(Some(5), None), Some(seq(5)), 100, 0), Step::Wait);
    }
}
