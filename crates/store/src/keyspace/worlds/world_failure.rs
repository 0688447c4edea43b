//! `u/<u>/w/<w>/failure`: the steps of a world that failed since the last upgrade, resume, retry or skip, for lists.
//!
//! Written by `commit_turn` with the records that say so, and removed with the record of an upgrade, a resume, a retry or a skip.
//! The journal is the truth; this is an index of its newest failure. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorldFailure {
    /// How many steps failed.
    #[n(0)]
    pub count: u64,
    /// Of the newest: the height of the record that says so.
    #[n(1)]
    pub height: Height,
    #[n(2)]
    pub code: String,
    #[n(3)]
    pub reason: String,
    #[n(4)]
    pub at_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::WorldFailure).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<WorldFailure>, StoreError> {
    get(tx, Family::WorldFailure, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    failure: &WorldFailure,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), failure)
}

pub(crate) fn remove<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<(), StoreError> {
    Ok(tx.delete(key(universe, world).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(count: u64, height in laws::heights(), reason: String, at_ns: u64, noise: Vec<u8>) {
            let failure = WorldFailure { count, height, code: "PROGRAM_FAILED".into(), reason, at_ns };
            laws::value_survives(Family::WorldFailure, &failure, &noise)?;
        }
    }
}
