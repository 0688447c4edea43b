//! `u/<u>/w/<w>/snapshot/due`: when the next snapshot of a world that rests is due by age.
//!
//! Written by `snapshot_due` when the world falls idle with records above its newest snapshot, and removed when it is woken for it. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SnapshotDueAt {
    #[n(0)]
    pub due_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::SnapshotDueAt).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<SnapshotDueAt>, StoreError> {
    get(tx, Family::SnapshotDueAt, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    at: &SnapshotDueAt,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(due_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::SnapshotDueAt, &SnapshotDueAt { due_ns }, &noise)?;
        }
    }
}
