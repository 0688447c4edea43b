//! Read what a turn starts from: head, cursor, and the items after it.
//!
//! Guarantees: what is returned is one consistent moment. The inbox is read from the cursor, never from its
//! prefix, and without a conflict: items are immutable, and none ever appears behind one that was seen.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::InboxEnd;
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::append,
    keyspace::{
        inbox_depth::Depth,
        inbox_entry,
        journal_head::{self, JournalHead, Position},
        lease,
        notify::{self, Seen},
    },
};
use bytes::Bytes;
use mundi_engine::{RangeRead, Read, ReadPlan, Source, Transaction};
use mundi_model::{
    InboxSeq, UniverseId, WorldId, limits,
    mutants::{Mutant, planted},
    record::InboxItem,
};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub struct ReadTurn {
    pub fence: Fence,
    /// Where the cursor was seen last: the items after it are asked for at once, in the hope that it is still there.
    pub cursor_seen: Option<InboxSeq>,
    pub items_max: usize,
    pub bytes_max: usize,
}

/// The state that a turn starts from.
#[derive(Debug, Clone)]
pub struct TurnInput {
    pub head: JournalHead,
    pub cursor: Option<InboxSeq>,
    /// The items after the cursor, without a gap.
    pub items: Vec<TurnItem>,
    /// Behind the last of them the inbox is empty. `None`: there are more items than the budgets allow.
    pub end: Option<InboxEnd>,
    /// For [`notify::changed`], once there is no work.
    pub notify: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnItem {
    pub seq: InboxSeq,
    pub item: Arc<InboxItem>,
    /// Its weight in the inbox; nothing if it never stood there.
    pub depth: Depth,
}

impl Protocol for ReadTurn {
    type Output = TurnInput;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    /// Where the items begin is known, or is only read with the rest.
    fn source(&self) -> Source {
        if self.cursor_seen.is_some() { Source::SharedSnapshot } else { Source::OwnSnapshot }
    }

    fn read_plan(&self) -> ReadPlan {
        let Fence { universe, world, .. } = self.fence;
        let keys = [lease::key, notify::key, journal_head::key].map(|key| key(universe, world).planned());
        let items = |seen| Read::Range(items_read(universe, world, Some(seen), self.items_max));
        ReadPlan::reads(keys.into_iter().chain(self.cursor_seen.map(items)))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<TurnInput, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let notify = notify::read(tx, universe, world).await?;
        let Position { head, cursor } = append::position(tx, universe, world).await?;
        let (items, more) = items_after(tx, universe, world, cursor, self.items_max, self.bytes_max).await?;
        let version = tx.version().await?;
        let last = items.last().map(|item| item.seq).or(cursor);
        let is_end = !more || planted(Mutant::EndAssumed);
        let end = is_end.then(|| InboxEnd::found(last, notify.clone(), version));
        Ok(TurnInput { head, cursor, items, end, notify })
    }
}

fn items_read(universe: UniverseId, world: WorldId, cursor: Option<InboxSeq>, items_max: usize) -> RangeRead {
    inbox_entry::after(universe, world, cursor).read(items_max.clamp(1, limits::TURN_ITEMS_MAX)).snapshot()
}

/// The items after a cursor, cut to both budgets; at least one, if there is one.
pub(in crate::protocol) async fn items_after<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    cursor: Option<InboxSeq>,
    items_max: usize,
    bytes_max: usize,
) -> Result<(Vec<TurnItem>, bool), StoreError> {
    let page = tx.range(items_read(universe, world, cursor, items_max)).await?;
    let fitting = cut(&page.items, bytes_max.clamp(1, limits::TURN_BYTES_MAX));
    let decode = |(key, bytes): &(Bytes, Bytes)| {
        let item = inbox_entry::decode(key, bytes)?;
        let depth = Depth::of(&item, bytes.len());
        Ok(TurnItem { seq: inbox_entry::parse(universe, world, key)?, item: Arc::new(item), depth })
    };
    let more = page.more || fitting < page.items.len();
    let items = page.items[..fitting].iter().map(decode).collect::<Result<_, StoreError>>()?;
    Ok((items, more))
}

/// How many items fit a budget of bytes: at least one, so that no item can stop a world.
fn cut(items: &[(Bytes, Bytes)], bytes_max: usize) -> usize {
    let mut bytes = 0usize;
    let fits = |(_, value): &&(Bytes, Bytes)| {
        bytes = bytes.saturating_add(value.len());
        bytes <= bytes_max
    };
    items.iter().take_while(fits).count().max(1).min(items.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_takes_at_least_one_item_and_never_more_than_fit() {
        let items: Vec<_> = [10, 20, 30].map(|len| (Bytes::new(), Bytes::from(vec![0; len]))).into();
        assert_eq!([1, 10, 29, 30, 59, 60, 1000].map(|max| cut(&items, max)), [1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(cut(&[], 100), 0);
    }
}
