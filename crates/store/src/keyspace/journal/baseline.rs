//! `u/<u>/w/<w>/baseline/active`: the snapshot that restore starts from.
//!
//! Written by `create_world` and `commit_snapshot`. Monotonic in its height; it exists as long as the world.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, record::SnapshotNote};

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::Baseline).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<SnapshotNote>, StoreError> {
    get(tx, Family::Baseline, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    note: &SnapshotNote,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, snapshot::tests::notes};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(note in notes(), noise: Vec<u8>) {
            laws::value_survives(Family::Baseline, &note, &noise)?;
        }
    }
}
