//! `u/<u>/worlds/changes/<slot>`: the world whose meta record changed last, among those that share a slot.
//!
//! Written by [`world_meta::write`](crate::keyspace::world_meta), blind. The counter of worlds says how many changes there were: a reader that finds fewer slots
//! changed than that knows that it cannot name all of them. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, decode_value, put, world_meta::WorldMeta};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorldId, cbor, limits};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WorldChange {
    #[n(0)]
    pub world: WorldId,
    /// Of the record that was written: a world that is as it was at the last look has not changed for the reader.
    #[n(1)]
    pub digest: u64,
}

/// The slots that are in use, by number.
pub type WorldChanges = BTreeMap<u8, WorldChange>;

pub fn slot(world: WorldId) -> u8 {
    world.as_bytes()[WorldId::LEN - 1] % limits::WORLD_CHANGES_KEPT_MAX
}

pub fn key(universe: UniverseId, slot: u8) -> Key {
    KeyBuilder::universe(universe, Family::WorldChange).u8(slot).key()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    meta: &WorldMeta,
) -> Result<(), StoreError> {
    let mut digest = [0; 8];
    digest.copy_from_slice(&Hash::of(&cbor::encode(meta)).as_bytes()[..8]);
    put(tx, &key(universe, slot(world)), &WorldChange { world, digest: u64::from_be_bytes(digest) })
}

/// All slots, without a conflict.
pub async fn read_all<T: Transaction>(tx: &mut T, universe: UniverseId) -> Result<WorldChanges, StoreError> {
    let family = Family::WorldChange.prefix(universe);
    let read = tx.range(family.span().read(usize::from(limits::WORLD_CHANGES_KEPT_MAX)).snapshot()).await?;
    let items = read.items.iter().map(|(key, value)| {
        let mut reader = KeyReader::after(Family::WorldChange, &family, key)?;
        let slot = reader.u8()?;
        Ok((reader.end(slot)?, decode_value(Family::WorldChange, key, value)?))
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(world in laws::worlds(), digest: u64, noise: Vec<u8>) {
            laws::value_survives(Family::WorldChange, &WorldChange { world, digest }, &noise)?;
        }
    }
}
