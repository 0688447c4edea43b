//! `u/<u>/w/<w>/active`: when a worker last opened or released a world.
//!
//! Written by `acquire_lease` and `release_lease` for holders that take turns, and by no turn: so it is as coarse as the time that a world stays in
//! memory. The index of worlds follows it. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, get_snapshot, put, world_index};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LastActive {
    #[n(0)]
    pub at_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::LastActive).key()
}

/// Without a conflict: nothing is decided by it.
pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<LastActive>, StoreError> {
    get_snapshot(tx, Family::LastActive, &key(universe, world)).await
}

/// With a conflict: the entry of the index that follows from it is to be written or removed. Zero if no worker ever opened the world.
pub(crate) async fn indexed_at<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<u64, StoreError> {
    let active = get::<_, LastActive>(tx, Family::LastActive, &key(universe, world)).await?;
    Ok(active.map_or(0, |active| active.at_ns))
}

/// Writes it, and the entry of the index that follows from it.
pub(crate) async fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    at_ns: u64,
) -> Result<(), StoreError> {
    let before_ns = indexed_at(tx, universe, world).await?;
    world_index::follow_active(tx, universe, world, Some(before_ns), Some(at_ns))?;
    put(tx, &key(universe, world), &LastActive { at_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::LastActive, &LastActive { at_ns }, &noise)?;
        }
    }
}
