//! `u/<u>/children/work/<parent>`: parents with children that wait or run, and what an executor must know of each to pass it over.
//!
//! Written with every change of the parent's child state, in the same transaction; removed by whatever ends the last child. Free: it repeats
//! what the state says, so that an executor that is woken reads one range instead of every parent.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, child_state::ChildState, put, queue_notify};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, cbor, child::CHILD_SPAWN};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct ChildWork {
    /// Rises whenever a child is spawned, leased or ended; 0 if nothing is known: an executor then looks at the parent.
    #[n(0)]
    pub version: u64,
    #[n(1)]
    pub queued: u64,
    #[n(2)]
    pub active: u64,
    /// No child can be leased: none waits, or as many run as may.
    #[n(3)]
    pub blocked: bool,
    /// When the first lease of an active child runs out.
    #[n(4)]
    pub deadline_ns: Option<u64>,
    /// An executor is asked to stop one of the active children.
    #[n(5)]
    pub cancelling: bool,
}

impl ChildWork {
    fn of(state: &ChildState) -> Self {
        Self {
            version: state.next_queue_seq.saturating_add(state.next_dispatch_seq).saturating_add(state.next_ended),
            queued: state.queued,
            active: state.active.len() as u64,
            blocked: !state.has_room(),
            deadline_ns: state.active.iter().filter_map(|active| active.lease.deadline_ns).min(),
            cancelling: state.active.iter().any(|active| active.cancel),
        }
    }

    /// The content of a row; nothing, if it cannot be read.
    pub(crate) fn read(value: &[u8]) -> Self {
        cbor::decode(value).unwrap_or_default()
    }

    /// Whether a lease of a child has run out.
    pub fn is_orphaned(&self, now_ns: u64) -> bool {
        self.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns)
    }
}

pub fn key(universe: UniverseId, parent: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::ChildWork).bytes(parent.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    Family::ChildWork.prefix(universe)
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<WorldId, StoreError> {
    let mut reader = KeyReader::after(Family::ChildWork, &prefix(universe), key)?;
    let parent = reader.world()?;
    reader.end(parent)
}

/// Repeats what the parent's state says now.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    state: &ChildState,
) -> Result<(), StoreError> {
    let key = key(universe, parent);
    if state.is_idle() {
        return Ok(tx.delete(key.as_bytes())?);
    }
    put(tx, &key, &ChildWork::of(state))
}

/// Lets every executor look at a parent whose own state changed: it is paused or not, on hold or not, archived, or gone.
pub(crate) async fn look_again<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
) -> Result<(), StoreError> {
    let key = key(universe, parent);
    let Some(value) = tx.get(key.as_bytes()).await? else { return Ok(()) };
    let work = ChildWork { version: 0, blocked: false, ..ChildWork::read(&value) };
    put(tx, &key, &work)?;
    queue_notify::bump(tx, universe, CHILD_SPAWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_parent(a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |parent| key(universe, *parent), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(version: u64, deadline_ns: Option<u64>, blocked: bool, noise: Vec<u8>) {
            let work = ChildWork { version, deadline_ns, blocked, ..ChildWork::default() };
            laws::value_survives(Family::ChildWork, &work, &noise)?;
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_hides_no_parent() {
        let work = ChildWork::read(b"no row");
        assert!(work.version == 0 && !work.blocked);
    }
}
