//! `u/<u>/children/work/<parent>`: parents with children that wait or run.
//!
//! Written by the turn that spawns a child; removed by whatever ends the last one. Free: a hint, that of the parent's state, in the same transaction.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChildWork {
    #[n(0)]
    pub since_ns: u64,
}

pub fn key(universe: UniverseId, parent: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::ChildWork).bytes(parent.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    Family::ChildWork.prefix(universe)
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<WorldId, StoreError> {
    let mut reader = KeyReader::after(Family::ChildWork, &prefix(universe), key)?;
    let parent = reader.world()?;
    reader.end(parent)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    now_ns: u64,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent), &ChildWork { since_ns: now_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_parent(a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |parent| key(universe, *parent), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(since_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::ChildWork, &ChildWork { since_ns }, &noise)?;
        }
    }
}
