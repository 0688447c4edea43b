//! `u/<u>/w/<w>/journal/manifest/<height>`: from this height on, this manifest holds.
//!
//! Written in the transaction that appends a genesis or a manifest change: an index of the journal, so that
//! a snapshot's manifest can be compared with the one that the journal gives without reading back to the
//! last change. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, Span, decode_value, put};
use minicbor::{Decode, Encode};
use mundi_engine::{RangeRead, Transaction};
use mundi_model::{Hash, Height, UniverseId, WorldId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct ManifestAt {
    #[n(0)]
    manifest: Hash,
}

pub fn key(universe: UniverseId, world: WorldId, from: Height) -> Key {
    KeyBuilder::world(universe, world, Family::ManifestAt).u64(from.get()).key()
}

/// All manifests that a world has had.
pub(crate) fn span(universe: UniverseId, world: WorldId) -> Span {
    KeyBuilder::world(universe, world, Family::ManifestAt).key().span()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    from: Height,
    manifest: Hash,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, from), &ManifestAt { manifest })
}

/// The manifest that a value names.
pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Hash, StoreError> {
    decode_value::<ManifestAt>(Family::ManifestAt, key, bytes).map(|at| at.manifest)
}

/// The read that finds the manifest of a height, to be planned.
pub(crate) fn read_at(universe: UniverseId, world: WorldId, height: Height) -> RangeRead {
    let start = key(universe, world, Height::GENESIS);
    let end = key(universe, world, height).successor();
    Span { start, end }.read(1).reverse()
}

/// The manifest that holds at a height: the last one set at or below it.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
) -> Result<Option<Hash>, StoreError> {
    let page = tx.range(read_at(universe, world, height)).await?;
    let Some((key, bytes)) = page.items.first() else { return Ok(None) };
    let at: ManifestAt = decode_value(Family::ManifestAt, key, bytes)?;
    Ok(Some(at.manifest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::{Engine, Memory};
    use proptest::prelude::*;

    #[test]
    fn the_manifest_at_a_height_is_the_last_one_set_at_or_below_it() {
        let (universe, world) = (laws::universe(), laws::world());
        let (old, new) = (Hash::of(b"old"), Hash::of(b"new"));
        pollster::block_on(async {
            let mut tx = Memory::new().begin().await.unwrap();
            assert_eq!(read(&mut tx, universe, world, Height::new(9)).await.unwrap(), None);
            write(&mut tx, universe, world, Height::new(2), old).unwrap();
            write(&mut tx, universe, world, Height::new(5), new).unwrap();
            for (height, manifest) in [(1, None), (2, Some(old)), (4, Some(old)), (5, Some(new)), (u64::MAX, Some(new))]
            {
                assert_eq!(read(&mut tx, universe, world, Height::new(height)).await.unwrap(), manifest);
            }
        });
    }

    proptest! {
        #[test]
        fn the_value_survives(manifest in laws::hashes(), noise: Vec<u8>) {
            laws::value_survives(Family::ManifestAt, &ManifestAt { manifest }, &noise)?;
        }
    }
}
