//! `u/<u>/w/<w>/pool/authority/<lease>`: the holder of an active lease, and its epoch.
//!
//! Written and removed by `commit_turn` of the pool's own world, in the transaction that appends the command: the key is there exactly while
//! the lease is active. Free: each lease has its own key. Whatever begins an effect under a lease reads it with a conflict, so a revoke that commits first stops the
//! effect, and one that commits later conflicts with nothing that began before. A copy of a pool never writes one.

use super::{lease_beat, lease_reclaim};
use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, decode_value, get, get_snapshot, put};
use minicbor::{Decode, Encode};
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

/// The commit does not depend on it.
pub(crate) async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    lease: LeaseId,
) -> Result<Option<LeaseAuthority>, StoreError> {
    get_snapshot(tx, Family::LeaseAuthority, &key(universe, pool, lease)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    change: &AuthorityChange,
) -> Result<(), StoreError> {
    let key = key(universe, pool, change.lease);
    match &change.authority {
        Some(authority) => put(tx, &key, authority)?,
        None => {
            tx.delete(key.as_bytes())?;
            tx.delete(lease_beat::key(universe, pool, change.lease).as_bytes())?;
        }
    }
    lease_reclaim::write(tx, universe, pool, change)
}

/// The authorities of a pool's world; above a lease, if one is named.
pub(crate) async fn page<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    after: Option<LeaseId>,
    items_max: usize,
) -> Result<Vec<(LeaseId, LeaseAuthority)>, StoreError> {
    by_lease(tx, Family::LeaseAuthority, (universe, pool), after, items_max).await
}

/// The records of one family of a pool's world, in the order of leases.
pub(super) async fn by_lease<T: Transaction, V: for<'b> Decode<'b, ()> + Encode<()>>(
    tx: &mut T,
    family: Family,
    (universe, pool): (UniverseId, WorldId),
    after: Option<LeaseId>,
    items_max: usize,
) -> Result<Vec<(LeaseId, V)>, StoreError> {
    let prefix = KeyBuilder::world(universe, pool, family).key();
    let span = match after {
        Some(lease) => prefix.span().after(&KeyBuilder::world(universe, pool, family).bytes(lease.as_bytes()).key()),
        None => prefix.span(),
    };
    let found = tx.range(span.read(items_max)).await?;
    let entry = |(key, value): &(bytes::Bytes, bytes::Bytes)| {
        Ok((lease_of(family, &prefix, key)?, decode_value(family, key, value)?))
    };
    found.items.iter().map(entry).collect()
}

/// The lease that a key ends in.
pub(super) fn lease_of(family: Family, prefix: &Key, key: &[u8]) -> Result<LeaseId, StoreError> {
    let mut reader = KeyReader::after(family, prefix, key)?;
    let lease = LeaseId::from_bytes(*reader.world()?.as_bytes());
    reader.end(lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::pool::HolderId;
    use proptest::prelude::*;

    fn parse(key: &[u8]) -> Result<LeaseId, StoreError> {
        let prefix = KeyBuilder::world(laws::universe(), laws::world(), Family::LeaseAuthority).key();
        lease_of(Family::LeaseAuthority, &prefix, key)
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
