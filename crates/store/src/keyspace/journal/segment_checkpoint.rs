//! `u/<u>/segments/checkpoint/<world>`: how far the export that is in progress has come.
//!
//! Written and removed by `segment_export`. Free. It fixes the range before the object is written, so that an export
//! that was interrupted continues with the same object.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SegmentCheckpoint {
    #[n(0)]
    pub start: Height,
    #[n(1)]
    pub end: Height,
    /// Absent while the object is not known to be written. Then the index record is there, and hot entries below this
    /// height are gone.
    #[n(2)]
    pub deleted_to: Option<Height>,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::SegmentCheckpoint).bytes(world.as_bytes()).key()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<WorldId, StoreError> {
    let family = Family::SegmentCheckpoint;
    let mut reader = KeyReader::after(family, &family.prefix(universe), key)?;
    let world = reader.world()?;
    reader.end(world)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<SegmentCheckpoint>, StoreError> {
    get(tx, Family::SegmentCheckpoint, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    checkpoint: &SegmentCheckpoint,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_world(a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |world| key(universe, *world), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(
            (start, end) in (laws::heights(), laws::heights()),
            deleted_to in prop::option::of(laws::heights()),
            noise: Vec<u8>
        ) {
            laws::value_survives(Family::SegmentCheckpoint, &SegmentCheckpoint { start, end, deleted_to }, &noise)?;
        }
    }
}
