//! `u/<u>/w/<w>/pool/authority/<lease>`: the holder of an active lease, and its epoch.
//!
//! Written and removed by `commit_turn` of the pool's own world, in the transaction that appends the command: the key is there exactly while
//! the lease is active. Free: each lease has its own key. Whatever begins an effect under a lease reads it with a conflict, so a revoke that commits first stops the
//! effect, and one that commits later conflicts with nothing that began before. A copy of a pool never writes one.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    pool::{AuthorityChange, LeaseAuthority, LeaseId},
};

/// `pool` is the world of the shard that the lease lies in.
pub fn key(universe: UniverseId, pool: WorldId, lease: LeaseId) -> Key {
    KeyBuilder::world(universe, pool, Family::LeaseAuthority).bytes(lease.as_bytes()).key()
}

/// The commit depends on it, also on its absence.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    lease: LeaseId,
) -> Result<Option<LeaseAuthority>, StoreError> {
    get(tx, Family::LeaseAuthority, &key(universe, pool, lease)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    change: &AuthorityChange,
) -> Result<(), StoreError> {
    let key = key(universe, pool, change.lease);
    match &change.authority {
        Some(authority) => put(tx, &key, authority),
        None => Ok(tx.delete(key.as_bytes())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeyReader, laws};
    use mundi_model::pool::HolderId;
    use proptest::prelude::*;

    fn parse(key: &[u8]) -> Result<LeaseId, StoreError> {
        let prefix = KeyBuilder::world(laws::universe(), laws::world(), Family::LeaseAuthority).key();
        let mut reader = KeyReader::after(Family::LeaseAuthority, &prefix, key)?;
        let lease = LeaseId::from_bytes(*reader.world()?.as_bytes());
        reader.end(lease)
    }

    proptest! {
        #[test]
        fn keys_sort_by_lease(a: [u8; 16], b: [u8; 16]) {
            let leases = (LeaseId::from_bytes(a), LeaseId::from_bytes(b));
            laws::keys_are_ordered(leases, |lease| key(laws::universe(), laws::world(), *lease), parse)?;
        }

        #[test]
        fn the_value_survives(epoch: u64, holder: [u8; 16], noise: Vec<u8>) {
            let authority = LeaseAuthority { epoch, holder: HolderId::from_bytes(holder) };
            laws::value_survives(Family::LeaseAuthority, &authority, &noise)?;
        }
    }
}
