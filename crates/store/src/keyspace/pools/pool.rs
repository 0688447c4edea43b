//! `u/<u>/pools/<name>`: the pools of a universe.
//!
//! Written by `create_pool`, removed by `delete_pool`; immutable. Only a pool that stands here is one: a fork or an imported copy of its worlds does not.

use crate::StoreError;
use crate::keyspace::{Family, by_name::by_name};
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

by_name!(Family::Pool, PoolRecord);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            laws::keys_sort_by_name(key, parse, &a, &b)?;
        }

        #[test]
        fn the_value_survives(at: u64, shards: u64, manifest in laws::hashes(), config: String, noise: Vec<u8>) {
            let record = PoolRecord { created_at_ns: at, shards, manifest, config };
            laws::value_survives(Family::Pool, &record, &noise)?;
        }
    }
}
