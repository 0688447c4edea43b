//! `u/<u>/w/<w>/snapshot/by_height/<height>`: the index of a world's snapshots.
//!
//! Written by `create_world` and `commit_snapshot`. Immutable: a second, different snapshot at a height is refused.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, get, put};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId, record::SnapshotNote};

pub fn key(universe: UniverseId, world: WorldId, height: Height) -> Key {
    KeyBuilder::world(universe, world, Family::Snapshot).u64(height.get()).key()
}

pub fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::Snapshot).key()
}

pub fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<Height, StoreError> {
    let mut reader = KeyReader::after(Family::Snapshot, &prefix(universe, world), key)?;
    let height = Height::new(reader.u64()?);
    reader.end(height)
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
) -> Result<Option<SnapshotNote>, StoreError> {
    get(tx, Family::Snapshot, &key(universe, world, height)).await
}

/// The newest snapshot at or below a height: where time travel to that height starts.
pub async fn newest_at<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
) -> Result<Option<SnapshotNote>, StoreError> {
    let span = Span { start: key(universe, world, Height::GENESIS), end: key(universe, world, height).successor() };
    let page = tx.range(span.read(1).reverse()).await?;
    page.items.first().map(|(key, bytes)| decode_value(Family::Snapshot, key, bytes)).transpose()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    note: &SnapshotNote,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, note.height), note)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    pub(crate) fn notes() -> impl Strategy<Value = SnapshotNote> {
        (laws::hashes(), any::<(u64, u64)>(), prop::option::of(laws::heights()), laws::hashes(), laws::hashes())
            .prop_map(|(snapshot, (height, logical_time_ns), receipt_horizon, manifest, chain)| SnapshotNote {
                snapshot,
                height: Height::new(height),
                logical_time_ns,
                receipt_horizon,
                manifest,
                chain,
            })
    }

    proptest! {
        #[test]
        fn keys_sort_by_height(a in laws::heights(), b in laws::heights()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |height| key(universe, world, *height), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(note in notes(), noise: Vec<u8>) {
            laws::value_survives(Family::Snapshot, &note, &noise)?;
        }
    }
}
