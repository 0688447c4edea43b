//! `u/<u>/w/<w>/journal/e/<height>`: one record, as its canonical bytes.
//!
//! Written by every protocol that appends; removed by `segment_export` once a segment holds it, and by
//! `delete_world`. Immutable.

use super::{Family, Key, KeyBuilder, KeyReader, Span};
use crate::StoreError;
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId};

pub fn key(universe: UniverseId, world: WorldId, height: Height) -> Key {
    KeyBuilder::world(universe, world, Family::JournalEntry).u64(height.get()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::JournalEntry).key()
}

/// The entries of `from..until`.
pub fn span(universe: UniverseId, world: WorldId, from: Height, until: Height) -> Span {
    Span { start: key(universe, world, from), end: key(universe, world, until) }
}

pub(crate) fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<Height, StoreError> {
    let mut reader = KeyReader::after(Family::JournalEntry, &prefix(universe, world), key)?;
    let height = Height::new(reader.u64()?);
    reader.end(height)
}

/// Sets the bytes at a height; the caller has checked that the height is the next one.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
    bytes: Bytes,
) -> Result<(), StoreError> {
    Ok(tx.put(key(universe, world, height).as_bytes(), bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_height(a in laws::heights(), b in laws::heights()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |height| key(universe, world, *height), |key| parse(universe, world, key))?;
        }
    }
}
