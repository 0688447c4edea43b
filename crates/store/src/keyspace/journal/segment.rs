//! `u/<u>/segments/<world>/<end height>`: the index of a world's segments.
//!
//! Written by `segment_export`, removed with its world. Immutable. Keyed by the end, so that the segment of a height is
//! the first one above it. The object's key is not stored but derived from the range.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, UniverseId, WorldId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SegmentRecord {
    #[n(0)]
    pub start: Height,
    /// The height after the last one.
    #[n(1)]
    pub end: Height,
    #[n(2)]
    pub size_bytes: u64,
    /// The footer's length; it lies before the trailer at the end of the object.
    #[n(3)]
    pub footer_bytes: u32,
    /// Over the footer, which holds the checksums of all else.
    #[n(4)]
    pub checksum: Hash,
}

pub fn key(universe: UniverseId, world: WorldId, end: Height) -> Key {
    KeyBuilder::universe(universe, Family::Segment).bytes(world.as_bytes()).u64(end.get()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::Segment).bytes(world.as_bytes()).key()
}

/// All segments of a world.
pub fn span(universe: UniverseId, world: WorldId) -> Span {
    prefix(universe, world).span()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<(WorldId, Height), StoreError> {
    let mut reader = KeyReader::after(Family::Segment, &Family::Segment.prefix(universe), key)?;
    let place = (reader.world()?, Height::new(reader.u64()?));
    reader.end(place)
}

/// The segment that ends at a height.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    end: Height,
) -> Result<Option<SegmentRecord>, StoreError> {
    get(tx, Family::Segment, &key(universe, world, end)).await
}

/// The segment that holds a height, if one does.
pub async fn holding<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
) -> Result<Option<SegmentRecord>, StoreError> {
    let after = span(universe, world).after(&key(universe, world, height));
    let page = tx.range(after.read(1)).await?;
    let found = page.items.first().map(|(key, bytes)| decode_value::<SegmentRecord>(Family::Segment, key, bytes));
    Ok(found.transpose()?.filter(|segment| segment.start <= height))
}

/// The newest segment of a world.
pub async fn newest<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<SegmentRecord>, StoreError> {
    let page = tx.range(span(universe, world).read(1).reverse()).await?;
    page.items.first().map(|(key, bytes)| decode_value(Family::Segment, key, bytes)).transpose()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    record: &SegmentRecord,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, record.end), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::{Engine, Memory};
    use proptest::prelude::*;

    #[test]
    fn the_segment_of_a_height_is_the_first_that_ends_above_it() {
        pollster::block_on(async {
            let (universe, world) = (laws::universe(), laws::world());
            let mut tx = Memory::new().begin().await.unwrap();
            let segment = |start, end| SegmentRecord {
                start: Height::new(start),
                end: Height::new(end),
                size_bytes: 1,
                footer_bytes: 1,
                checksum: Hash::of(b""),
            };
            for (start, end) in [(3, 10), (10, 12)] {
                write(&mut tx, universe, world, &segment(start, end)).unwrap();
            }
            for (height, expected) in
                [(2, None), (3, Some(10)), (9, Some(10)), (10, Some(12)), (11, Some(12)), (12, None)]
            {
                let found = holding(&mut tx, universe, world, Height::new(height)).await.unwrap();
                assert_eq!(found.map(|segment| segment.end.get()), expected, "height {height}");
            }
            assert_eq!(newest(&mut tx, universe, world).await.unwrap(), Some(segment(10, 12)));
        });
    }

    proptest! {
        #[test]
        fn keys_sort_by_world_and_end(
            a in (laws::worlds(), laws::heights()),
            b in (laws::worlds(), laws::heights())
        ) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |(world, end)| key(universe, *world, *end), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(
            (start, end) in (laws::heights(), laws::heights()),
            (size_bytes, footer_bytes) in any::<(u64, u32)>(),
            checksum in laws::hashes(),
            noise: Vec<u8>
        ) {
            let record = SegmentRecord { start, end, size_bytes, footer_bytes, checksum };
            laws::value_survives(Family::Segment, &record, &noise)?;
        }
    }
}
