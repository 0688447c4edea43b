//! `u/<u>/ready/<shard>/<priority>/<world>`: worlds that have work.
//!
//! Written by `enqueue` and `commit_turn`, moved by `assign_world`; removed by `settle_world`, which first makes sure that nothing waits.
//! An archive removes it, and writes it when the world comes back.
//! Free: a hint. The truth is in inbox and journal, and a hint too many costs one look.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Shard, get, put, ready_notify};
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

/// The priority is that of the world's [`meta`](crate::keyspace::world_meta), which whoever writes here has read with a conflict: so
/// a world has one hint at most, and who changes the priority moves it.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    priority: u8,
    hint: &ReadyHint,
) -> Result<(), StoreError> {
    put(tx, &key(universe, priority, world), hint)
}

/// As [`write`], if there is none. Says whether there was one; it is read with a conflict, so it is still there.
pub(crate) async fn ensure<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    priority: u8,
    hint: &ReadyHint,
) -> Result<bool, StoreError> {
    let key = key(universe, priority, world);
    let there = tx.get(key.as_bytes()).await?.is_some();
    if !there {
        put(tx, &key, hint)?;
    }
    Ok(there)
}

pub(crate) fn remove<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    priority: u8,
) -> Result<(), StoreError> {
    Ok(tx.delete(key(universe, priority, world).as_bytes())?)
}

/// Moves a hint, if there is one, to another priority.
pub(crate) async fn rank<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    (from, to): (u8, u8),
) -> Result<(), StoreError> {
    let hint: Option<ReadyHint> = get(tx, Family::Ready, &key(universe, from, world)).await?;
    if let Some(hint) = hint.filter(|_| from != to) {
        remove(tx, universe, world, from)?;
        write(tx, universe, world, to, &hint)?;
        ready_notify::bump(tx, universe, shard(world))?;
    }
    Ok(())
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
