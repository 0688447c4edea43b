//! `u/<u>/w/<w>/journal/head`: the next height, and the hash that the next record must name.
//!
//! Written by every protocol that appends. Monotonic.

use super::{Family, Key, KeyBuilder, get, put};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct JournalHead {
    /// The next height to be written.
    #[n(0)]
    pub height: Height,
    /// The hash of the record below it.
    #[n(1)]
    pub chain: Hash,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::JournalHead).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<JournalHead>, StoreError> {
    get(tx, Family::JournalHead, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    head: &JournalHead,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(height in laws::heights(), chain in laws::hashes(), noise: Vec<u8>) {
            laws::value_survives(Family::JournalHead, &JournalHead { height, chain }, &noise)?;
        }
    }
}
