//! `u/<u>/w/<w>/children/of`: of which world this one is a child.
//!
//! Written by `start_world_child`, in the transaction that makes the world. Immutable. A fork of the world has none.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, child::ChildId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChildOf {
    #[n(0)]
    pub parent: WorldId,
    #[n(1)]
    pub child: ChildId,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::ChildOf).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<ChildOf>, StoreError> {
    get(tx, Family::ChildOf, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    of: &ChildOf,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(parent in laws::worlds(), child: [u8; 16], noise: Vec<u8>) {
            let of = ChildOf { parent, child: ChildId::from_bytes(child) };
            laws::value_survives(Family::ChildOf, &of, &noise)?;
        }
    }
}
