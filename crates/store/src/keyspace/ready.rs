//! `u/<u>/ready/<shard>/<priority>/<world>`: worlds that have something to do.
//!
//! Written by `enqueue` and `commit_turn`; removed by `settle_world`, which first makes sure that nothing waits.
//! Free: a hint. The truth is in inbox and journal, and a hint too many costs one look.

use super::{Family, Key, KeyBuilder, KeyReader, Shard, put};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

/// The priority of a world that nobody gave another one; smaller comes first.
pub const PRIORITY_NORMAL: u8 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ReadyHint {
    #[n(0)]
    pub at_ns: u64,
}

pub fn shard(world: WorldId) -> Shard {
    Shard::of(world.as_bytes())
}

pub fn key(universe: UniverseId, priority: u8, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::Ready).u8(shard(world).get()).u8(priority).bytes(world.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::Ready).u8(shard.get()).key()
}

/// The priority and the world of a hint of this shard.
pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<(u8, WorldId), StoreError> {
    let mut reader = KeyReader::after(Family::Ready, &prefix(universe, shard), key)?;
    let parts = (reader.u8()?, reader.world()?);
    reader.end(parts)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    hint: &ReadyHint,
) -> Result<(), StoreError> {
    put(tx, &key(universe, PRIORITY_NORMAL, world), hint)
}

pub(crate) fn remove<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<(), StoreError> {
    Ok(tx.delete(key(universe, PRIORITY_NORMAL, world).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_of_a_shard_sort_by_priority_then_world(a in any::<(u8, [u8; 16])>(), priority: u8) {
            let (universe, world) = (laws::universe(), WorldId::from_bytes(a.1));
            let pair = ((a.0, world), (priority, world));
            laws::keys_are_ordered(pair, |(priority, world)| key(universe, *priority, *world), |key| {
                parse(universe, shard(world), key)
            })?;
        }

        #[test]
        fn the_value_survives(at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::Ready, &ReadyHint { at_ns }, &noise)?;
        }
    }
}
