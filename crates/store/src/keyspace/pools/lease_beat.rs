//! `u/<u>/w/<w>/pool/beat/<lease>`: how often the holder of an active lease said that it is there.
//!
//! Written by `beat_lease`; removed by `commit_turn` of the pool's own world with the authority of the lease. A counter, without a time: a
//! watcher compares what it saw with what it sees, so that no clock is compared with another one.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, counter};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, pool::LeaseId};

/// `pool` is the world of the shard that the lease lies in.
pub fn key(universe: UniverseId, pool: WorldId, lease: LeaseId) -> Key {
    KeyBuilder::world(universe, pool, Family::LeaseBeat).bytes(lease.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    lease: LeaseId,
) -> Result<i64, StoreError> {
    let key = key(universe, pool, lease);
    let bytes = tx.get_snapshot(key.as_bytes()).await?;
    counter(Family::LeaseBeat, &key, bytes)
}

pub(crate) fn bump<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    pool: WorldId,
    lease: LeaseId,
) -> Result<(), StoreError> {
    Ok(tx.add(key(universe, pool, lease).as_bytes(), 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_engine::{Engine, Memory};

    #[test]
    fn beats_are_counted_by_lease() {
        let (universe, world) = (laws::universe(), laws::world());
        let lease = |n: u8| LeaseId::from_bytes([n; 16]);
        pollster::block_on(async {
            let engine = Memory::new();
            for _ in 0..3 {
                let mut tx = engine.begin().await.unwrap();
                bump(&mut tx, universe, world, lease(1)).unwrap();
                tx.commit().await.unwrap();
            }
            let mut tx = engine.begin().await.unwrap();
            assert_eq!(read(&mut tx, universe, world, lease(1)).await.unwrap(), 3);
            assert_eq!(read(&mut tx, universe, world, lease(2)).await.unwrap(), 0);
        });
    }
}
