//! `u/<u>/lineage/forks/<parent>/<fork>`: the forks of a world.
//!
//! Written in the transaction that creates the fork; removed when the fork is deleted. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ForkedWorld {
    #[n(0)]
    pub forked_at: Height,
    #[n(1)]
    pub created_at_ns: u64,
}

pub fn key(universe: UniverseId, parent: WorldId, child: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::ForkedWorld).bytes(parent.as_bytes()).bytes(child.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, parent: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::ForkedWorld).bytes(parent.as_bytes()).key()
}

pub fn parse(universe: UniverseId, parent: WorldId, key: &[u8]) -> Result<WorldId, StoreError> {
    let mut reader = KeyReader::after(Family::ForkedWorld, &prefix(universe, parent), key)?;
    let child = reader.world()?;
    reader.end(child)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    child: WorldId,
    value: &ForkedWorld,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent, child), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_child(parent in laws::worlds(), a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |child| key(universe, parent, *child), |key| parse(universe, parent, key))?;
        }

        #[test]
        fn the_value_survives(forked_at in laws::heights(), created_at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::ForkedWorld, &ForkedWorld { forked_at, created_at_ns }, &noise)?;
        }
    }
}
