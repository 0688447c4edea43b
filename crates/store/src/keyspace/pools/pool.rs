//! `u/<u>/pools/<name>`: the pools of a universe.
//!
//! Written by `create_pool`, removed by `delete_pool`; immutable. Only a pool that stands here is one: a fork or an imported copy of its worlds does not.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PoolRecord {
    #[n(0)]
    pub created_at_ns: u64,
    /// How many worlds it has. Resources are placed by a stable hash, so it never changes.
    #[n(1)]
    pub shards: u64,
    /// The manifest that its worlds were created with.
    #[n(2)]
    pub manifest: Hash,
    /// The configuration of each of its worlds, as canonical JSON.
    #[n(3)]
    pub config: String,
}

pub fn key(universe: UniverseId, name: &str) -> Key {
    KeyBuilder::universe(universe, Family::Pool).bytes(name.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    Family::Pool.prefix(universe)
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<String, StoreError> {
    KeyReader::after(Family::Pool, &prefix(universe), key)?.text()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
) -> Result<Option<PoolRecord>, StoreError> {
    get(tx, Family::Pool, &key(universe, name)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    record: &PoolRecord,
) -> Result<(), StoreError> {
    put(tx, &key(universe, name), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            let key = |name: &str| key(laws::universe(), name);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(parse(laws::universe(), key(&a).as_bytes()).unwrap(), a);
        }

        #[test]
        fn the_value_survives(at: u64, shards: u64, manifest in laws::hashes(), config: String, noise: Vec<u8>) {
            let record = PoolRecord { created_at_ns: at, shards, manifest, config };
            laws::value_survives(Family::Pool, &record, &noise)?;
        }
    }
}
