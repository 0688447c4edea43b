//! `u/<u>/w/<w>/inbox/compaction`: how far consumed items were removed, and how far they may be removed next.
//!
//! Written by `compact_inbox`. Both marks are monotonic.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{InboxSeq, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct InboxCompaction {
    /// Everything up to here is gone: the low-water mark that scans start from.
    #[n(0)]
    pub removed_through: Option<InboxSeq>,
    /// Everything up to here had been consumed at this time; it may go once the grace period is over.
    #[n(1)]
    pub candidate: Option<Candidate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Candidate {
    #[n(0)]
    pub through: InboxSeq,
    #[n(1)]
    pub seen_at_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::InboxCompaction).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<InboxCompaction, StoreError> {
    Ok(get(tx, Family::InboxCompaction, &key(universe, world)).await?.unwrap_or_default())
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    compaction: &InboxCompaction,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), compaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(
            removed_through in prop::option::of(laws::seqs()),
            candidate in prop::option::of((laws::seqs(), any::<u64>())),
            noise: Vec<u8>,
        ) {
            let candidate = candidate.map(|(through, seen_at_ns)| Candidate { through, seen_at_ns });
            laws::value_survives(Family::InboxCompaction, &InboxCompaction { removed_through, candidate }, &noise)?;
        }
    }
}
