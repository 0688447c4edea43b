//! List the timers of a universe, or of one world, in pages.
//!
//! Guarantees: each page is one consistent moment. Those of a world come in the order of their names; those of a universe
//! by shard, then by time.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::page::{Page, Room};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, Shard, decode_value, get_snapshot,
        timer_dedupe::{self, TimerDedupe, TimerStatus},
        timer_due::{self, TimerItem, TimerPlace},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct ListTimers {
    pub universe: UniverseId,
    pub world: Option<WorldId>,
    pub after: Option<TimerPlace>,
    pub items_max: usize,
}

/// A timer that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTimer {
    pub place: TimerPlace,
    pub item: TimerItem,
}

impl Protocol for ListTimers {
    type Output = Page<QueuedTimer, TimerPlace>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Page<QueuedTimer, TimerPlace>, StoreError> {
        match self.world {
            Some(world) => self.of_world(tx, world).await,
            None => self.of_universe(tx).await,
        }
    }
}

impl ListTimers {
    async fn of_universe<T: Transaction>(&self, tx: &mut T) -> Result<Page<QueuedTimer, TimerPlace>, StoreError> {
        let (mut page, mut room) = (Page::new(), Room::new(self.items_max));
        let first = self.after.map_or(Shard::FIRST, |after| timer_due::shard(after.intent));
        for shard in Shard::all().filter(|shard| *shard >= first) {
            let mut span = timer_due::due(self.universe, shard, 0, u64::MAX);
            if let Some(after) = self.after.filter(|_| shard == first) {
                span = span.after(&timer_due::key(self.universe, shard, after));
            }
            let found = tx.range(span.read(room.looks()).snapshot()).await?;
            for (index, (key, bytes)) in (1..).zip(&found.items) {
                let place = timer_due::parse(self.universe, shard, key)?;
                page.items.push(QueuedTimer { place, item: timer_due::decode(key, bytes)? });
                room.spend(true);
                if room.is_spent() || found.more && index == found.items.len() {
                    page.next = Some(place);
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// The record of what became of a timer knows its place while it waits.
    async fn of_world<T: Transaction>(
        &self,
        tx: &mut T,
        world: WorldId,
    ) -> Result<Page<QueuedTimer, TimerPlace>, StoreError> {
        let universe = self.universe;
        let (mut page, mut room) = (Page::new(), Room::new(self.items_max));
        let mut span = timer_dedupe::of_world(universe, world);
        if let Some(after) = self.after {
            span = span.after(&timer_dedupe::key(universe, world, after.intent));
        }
        let found = tx.range(span.read(room.looks()).snapshot()).await?;
        for (key, bytes) in &found.items {
            let (_, intent) = timer_dedupe::parse(universe, key)?;
            let status = decode_value::<TimerDedupe>(Family::TimerDedupe, key, bytes)?.status;
            let mut place = TimerPlace { place_ns: 0, intent };
            let mut taken = false;
            if let TimerStatus::Due { place_ns, .. } = status {
                place.place_ns = place_ns;
                let key = timer_due::key(universe, timer_due::shard(intent), place);
                let item: Option<TimerItem> = get_snapshot(tx, Family::TimerDue, &key).await?;
                taken = item.is_some();
                page.items.extend(item.map(|item| QueuedTimer { place, item }));
            }
            room.spend(taken);
            page.next = Some(place);
            if room.is_spent() {
                return Ok(page);
            }
        }
        if !found.more {
            page.next = None;
        }
        Ok(page)
    }
}
