//! `u/<u>/w/<w>/children/state`: the counters of a parent, and the children that run.
//!
//! Written by every protocol of children, so that those of one parent are put in one order. Its numbers only rise; the list of active children changes.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    child::{ChildId, ChildLease, Phase},
    limits,
};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChildState {
    /// The number of the next child. It never goes back, whatever is removed.
    #[n(0)]
    pub next_queue_seq: u64,
    /// The number of the next dispatch. It never goes back.
    #[n(1)]
    pub next_dispatch_seq: u64,
    /// No child below it is queued.
    #[n(2)]
    pub queue_from: u64,
    /// How many children wait.
    #[n(3)]
    pub queued: u64,
    /// Leased and started children, by `dispatch_seq`.
    #[n(4)]
    pub active: Vec<ActiveChild>,
    /// How many may be active at a time: as the manifest had it at the last spawn.
    #[n(5)]
    pub active_max: u64,
    /// The number of the next child that ends.
    #[n(6)]
    pub next_ended: u64,
    /// The first of those that ended and are kept.
    #[n(7)]
    pub ended_from: u64,
}

/// A child that is leased or started.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ActiveChild {
    #[n(0)]
    pub dispatch_seq: u64,
    #[n(1)]
    pub child: ChildId,
    #[n(2)]
    pub lease: ChildLease,
    #[n(3)]
    pub phase: Phase,
    /// Someone asked for its cancellation: its executor ends it.
    #[n(4)]
    pub cancel: bool,
}

impl Default for ChildState {
    fn default() -> Self {
        Self {
            next_queue_seq: 1,
            next_dispatch_seq: 1,
            queue_from: 1,
            queued: 0,
            active: Vec::new(),
            active_max: limits::CHILDREN_ACTIVE_DEFAULT,
            next_ended: 1,
            ended_from: 1,
        }
    }
}

impl ChildState {
    /// Nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.active.is_empty()
    }

    /// A child waits, and fewer run than may.
    pub fn has_room(&self) -> bool {
        self.queued > 0 && (self.active.len() as u64) < self.active_max
    }

    pub fn active(&self, child: ChildId) -> Option<&ActiveChild> {
        self.active.iter().find(|active| active.child == child)
    }
}

pub fn key(universe: UniverseId, parent: WorldId) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildState).key()
}

/// The commit depends on it, also on its absence.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
) -> Result<Option<ChildState>, StoreError> {
    get(tx, Family::ChildState, &key(universe, parent)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    state: &ChildState,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::WorkerId;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(next: u64, child: [u8; 16], deadline_ns: Option<u64>, noise: Vec<u8>) {
            let lease = ChildLease { worker: WorkerId::new(1).unwrap(), token: child, deadline_ns };
            let child = ChildId::from_bytes(child);
            let active = vec![ActiveChild { dispatch_seq: next, child, lease, phase: Phase::Leased, cancel: true }];
            let state = ChildState { next_queue_seq: next, active, ..ChildState::default() };
            laws::value_survives(Family::ChildState, &state, &noise)?;
        }
    }
}
