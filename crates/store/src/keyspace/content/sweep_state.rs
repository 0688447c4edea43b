//! `u/<u>/cas/sweep/state`: what the sweep of a universe's content store is doing, was asked for, and did last.
//!
//! Written by `sweep_run`, and by `delete_world`, which cancels a walk whose holder stopped its heartbeats. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct SweepState {
    /// The number of the newest run; runs are counted from 1.
    #[n(0)]
    pub runs: u64,
    #[n(1)]
    pub running: Option<Running>,
    #[n(2)]
    pub requested: Option<Requested>,
    #[n(3)]
    pub last: Option<Finished>,
    /// When the last run ended that was no dry one.
    #[n(4)]
    pub swept_at_ns: Option<u64>,
}

impl SweepState {
    /// The number of the newest run that has ended; 0 for none.
    pub(crate) fn ended(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.run)
    }

    /// Whether the run that begins next removes something. One that is taken up has begun, and keeps what it may still walk.
    pub(crate) fn next_removes(&self) -> bool {
        self.running.is_none() && self.requested.is_none_or(|requested| !requested.dry_run)
    }
}

/// A run that is in progress, or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Running {
    #[n(0)]
    pub run: u64,
    /// Rises whenever a process takes the run up; who has an older one has lost it.
    #[n(1)]
    pub attempt: u32,
    #[n(2)]
    pub holder: WorkerId,
    /// Another process may take the run up from then on.
    #[n(3)]
    pub until_ns: u64,
    #[n(4)]
    pub began_at_ns: u64,
    #[n(5)]
    pub dry_run: bool,
    #[n(6)]
    pub phase: Phase,
    /// The references of all worlds up to this one are in the marks.
    #[n(7)]
    pub walked_to: Option<WorldId>,
    #[n(8)]
    pub worlds: u64,
    /// How many values of marks there are.
    #[n(9)]
    pub marks: u32,
}

impl Running {
    /// Whether it gathers references.
    pub fn is_walking(&self) -> bool {
        self.phase == Phase::Walking
    }

    /// Whether no world's keys may be removed meanwhile. A dry run acts on nothing that it finds.
    pub(crate) fn keeps_worlds(&self) -> bool {
        self.is_walking() && !self.dry_run
    }

    /// Whether the two are the same run with the same holder.
    pub fn is_same_attempt(&self, other: &Self) -> bool {
        (self.run, self.attempt) == (other.run, other.attempt)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Phase {
    /// Gathers references.
    #[n(0)]
    Walking,
    /// Removes what has none.
    #[n(1)]
    Removing,
}

/// An operator wants a run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Requested {
    #[n(0)]
    pub at_ns: u64,
    #[n(1)]
    pub dry_run: bool,
}

/// The run that ended last.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Finished {
    #[n(0)]
    pub run: u64,
    #[n(1)]
    pub dry_run: bool,
    #[n(2)]
    pub began_at_ns: u64,
    #[n(3)]
    pub ended_at_ns: u64,
    #[n(4)]
    pub totals: Totals,
}

/// The totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Totals {
    #[n(0)]
    pub worlds: u64,
    #[n(1)]
    pub objects: u64,
    /// Objects that nothing refers to.
    #[n(2)]
    pub unreachable: u64,
    #[n(3)]
    pub unreachable_bytes: u64,
    /// Of these, found by this run for the first time.
    #[n(4)]
    pub condemned: u64,
    /// Found without a reference by an earlier run, and referred to after all.
    #[n(5)]
    pub reprieved: u64,
    /// Of a dry run: what it would have removed.
    #[n(6)]
    pub removed: u64,
    #[n(7)]
    pub removed_bytes: u64,
    /// Put or referred to while they were about to be removed.
    #[n(8)]
    pub spared: u64,
    /// Bodies of puts that never ended.
    #[n(9)]
    pub leftovers: u64,
    /// Segments of deleted worlds.
    #[n(10)]
    pub segments: u64,
    /// Worlds whose deletion was finished; of a dry run: would have been.
    #[n(11)]
    pub worlds_finished: u64,
}

pub fn key(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::SweepState).key()
}

/// The commit depends on it.
pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId) -> Result<SweepState, StoreError> {
    Ok(get(tx, Family::SweepState, &key(universe)).await?.unwrap_or_default())
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, state: &SweepState) -> Result<(), StoreError> {
    put(tx, &key(universe), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(numbers: [u64; 6], dry_run: bool, removing: bool, walked: bool, noise: Vec<u8>) {
            let [run, until_ns, began_at_ns, removed, ended_at_ns, worlds] = numbers;
            let phase = if removing { Phase::Removing } else { Phase::Walking };
            let holder = WorkerId::new((run >> 1).max(1)).unwrap();
            let walked_to = walked.then(laws::world);
            let running = Running {
                run, attempt: 1, holder, until_ns, began_at_ns, dry_run, phase, walked_to, worlds, marks: 2,
            };
            let totals = Totals { removed, worlds, ..Totals::default() };
            let state = SweepState {
                runs: run,
                running: Some(running),
                requested: Some(Requested { at_ns: until_ns, dry_run }),
                last: Some(Finished { run, dry_run, began_at_ns, ended_at_ns, totals }),
                swept_at_ns: walked.then_some(ended_at_ns),
            };
            laws::value_survives(Family::SweepState, &state, &noise)?;
            laws::value_survives(Family::SweepState, &SweepState::default(), &noise)?;
        }
    }
}
