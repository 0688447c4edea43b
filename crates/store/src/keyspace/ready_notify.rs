//! `u/<u>/ready/notify/<shard>`: rises whenever a world of the shard got something to do.
//!
//! Written by `enqueue`. A counter, for those who wait for any world at all; nothing relies on it.

use super::{Family, Key, KeyBuilder, Shard};
use crate::StoreError;
use mundi_engine::Transaction;
use mundi_model::UniverseId;

pub fn key(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::ReadyNotify).u8(shard.get()).key()
}

pub(crate) fn bump<T: Transaction>(tx: &mut T, universe: UniverseId, shard: Shard) -> Result<(), StoreError> {
    Ok(tx.add(key(universe, shard).as_bytes(), 1)?)
}
