//! `u/<u>/w/<w>/gc/pin/<hash>`: an object that a world keeps although none of its records may name it.
//!
//! The sweep keeps what is pinned. Only tests set pins so far (`testing::PinBlob`). Removed with its world. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorldId};

/// Why it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Pin {
    #[n(0)]
    pub reason: String,
}

pub fn key(universe: UniverseId, world: WorldId, hash: Hash) -> Key {
    KeyBuilder::world(universe, world, Family::GcPin).bytes(hash.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::GcPin).key()
}

pub(crate) fn span(universe: UniverseId, world: WorldId) -> Span {
    prefix(universe, world).span()
}

pub(crate) fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<Hash, StoreError> {
    let mut reader = KeyReader::after(Family::GcPin, &prefix(universe, world), key)?;
    let hash = reader.hash()?;
    reader.end(hash)
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    hash: Hash,
) -> Result<Option<Pin>, StoreError> {
    get(tx, Family::GcPin, &key(universe, world, hash)).await
}

pub fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    hash: Hash,
    pin: &Pin,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, hash), pin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_hash(a in laws::hashes(), b in laws::hashes()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |hash| key(universe, world, *hash), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(reason: String, noise: Vec<u8>) {
            laws::value_survives(Family::GcPin, &Pin { reason }, &noise)?;
        }
    }
}
