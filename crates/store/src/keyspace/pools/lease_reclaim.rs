//! `u/<u>/w/<w>/pool/reclaim/<lease>`: a revoked lease that a watcher is to reclaim, and how long after the revoke.
//!
//! Written by `commit_turn` of the pool's own world, in the transaction that appends the revoke; removed by the one that appends the reclaim.
//! Free: each lease has its own key. It decides only who tries and when; a copy of a pool never writes one.

use super::lease_authority::by_lease;
use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    pool::{AuthorityChange, LeaseId},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LeaseReclaim {
    #[n(0)]
    pub after_ms: u64,
}

/// `pool` is the world of the shard that the lease lies in.
pub fn key(universe: UniverseId, pool: WorldId, lease: LeaseId) -> Key {
    KeyBuilder::world(universe, pool, Family::LeaseReclaim).bytes(lease.as_bytes()).key()
}

pub(super) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    change: &AuthorityChange,
) -> Result<(), StoreError> {
    let key = key(universe, pool, change.lease);
    match change.reclaim_after_ms {
        Some(after_ms) => put(tx, &key, &LeaseReclaim { after_ms }),
        // A lease is revoked at most once: what is granted has none yet.
        None if change.authority.is_some() => Ok(()),
        None => Ok(tx.delete(key.as_bytes())?),
    }
}

/// Those of a pool's world; above a lease, if one is named.
pub(crate) async fn page<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    after: Option<LeaseId>,
    items_max: usize,
) -> Result<Vec<(LeaseId, LeaseReclaim)>, StoreError> {
    by_lease(tx, Family::LeaseReclaim, (universe, pool), after, items_max).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, pools::lease_authority::lease_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_lease(a: [u8; 16], b: [u8; 16]) {
            let prefix = KeyBuilder::world(laws::universe(), laws::world(), Family::LeaseReclaim).key();
            let parse = |key: &[u8]| lease_of(Family::LeaseReclaim, &prefix, key);
            let leases = (LeaseId::from_bytes(a), LeaseId::from_bytes(b));
            laws::keys_are_ordered(leases, |lease| key(laws::universe(), laws::world(), *lease), parse)?;
        }

        #[test]
        fn the_value_survives(after_ms: u64, noise: Vec<u8>) {
            laws::value_survives(Family::LeaseReclaim, &LeaseReclaim { after_ms }, &noise)?;
        }
    }
}
