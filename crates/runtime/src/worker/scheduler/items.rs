//! Items that wait in memory for the next turn of a world.
//!
//! An item that no turn takes within a number of rounds goes back to its sender, and from there through the inbox. Rounds are
//! counted here, and ended by one task for all worlds (`item_timeout.rs`): a timer for each item would cost as much as the item.

use super::{Scheduler, WorldEntry};
use crate::delivery::local::{Acknowledgement, Awaits, LocalItem};
use mundi_model::{WorldId, limits::DIRECT_ITEMS_MAX, record::InboxItem};
use std::{mem, sync::Arc};

/// Which worlds an item may be offered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    /// Worlds whose lease is held here.
    ResidentOnly,
    /// Also worlds that are not: such a world is woken, and gets the item once it is leased and restored.
    AtOnce { now_ns: u64 },
}

/// An item that waits for a turn.
pub(crate) struct Offered {
    pub(crate) acknowledgement: Acknowledgement,
    /// The world waits for a runner now.
    pub(crate) woken: bool,
    /// Nothing waited for any world: somebody must end rounds from now on.
    pub(crate) is_first: bool,
}

impl<H> Scheduler<H> {
    /// Puts an item before a world, if the world stays, has room, and is or may be held here.
    pub(crate) fn offer(
        &mut self,
        world: WorldId,
        item: &Arc<InboxItem>,
        awaits: Awaits,
        activation: Activation,
    ) -> Option<Offered> {
        let is_activated = match activation {
            Activation::ResidentOnly => self.fence(world).map(|_| false)?,
            Activation::AtOnce { now_ns } => !self.entries.contains_key(&world) && self.wake(world, now_ns),
        };
        let entry = self.entries.get_mut(&world)?;
        if entry.release || entry.items.len() >= DIRECT_ITEMS_MAX {
            return None;
        }
        let is_first = self.rounds.is_empty();
        if entry.items.is_empty() && mem::replace(&mut entry.first_round, self.round) != self.round {
            self.rounds.push_back((self.round, world));
        }
        let (item, acknowledgement) = LocalItem::new(item.clone(), awaits);
        entry.items.push(item);
        let woken = entry.wake(world, &mut self.queues) || is_activated;
        Some(Offered { acknowledgement, woken, is_first })
    }

    /// The items that a world is about to take in a turn, no more than it takes. What stays here times out, also while the world is
    /// restored; what a turn is about to take does not.
    pub(crate) fn take_items(&mut self, world: WorldId, items_max: usize) -> Vec<LocalItem> {
        let Some(entry) = self.entries.get_mut(&world) else { return Vec::new() };
        let later = entry.items.split_off(items_max.max(1).min(entry.items.len()));
        mem::replace(&mut entry.items, later)
    }

    /// Ends a round, and returns the items that have waited for more than `rounds` of them to their senders. Says whether any may
    /// still wait.
    pub(crate) fn end_round(&mut self, rounds: u64) -> bool {
        self.round += 1;
        while let Some((first_round, world)) = self.rounds.front().copied() {
            let waiting = |entry: &&mut WorldEntry<H>| !entry.items.is_empty() && entry.first_round == first_round;
            let waiting = self.entries.get_mut(&world).filter(waiting);
            if waiting.is_some() && self.round - first_round <= rounds {
                return true;
            }
            waiting.into_iter().for_each(|entry| entry.items.clear());
            self.rounds.pop_front();
        }
        false
    }

    /// Returns all items that wait to their senders.
    pub(crate) fn return_items(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.items.clear());
    }
}
