//! `u/<u>/assignments/by_worker/<worker>/<world>`: the worlds that a worker should run.
//!
//! Written in the transaction that writes the assignment: an index of it, so that a worker lists its own
//! worlds without a scan of all. The value is empty. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId};

pub fn key(universe: UniverseId, worker: WorkerId, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::AssignedWorld).u64(worker.get()).bytes(world.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, worker: WorkerId) -> Key {
    KeyBuilder::universe(universe, Family::AssignedWorld).u64(worker.get()).key()
}

pub fn parse(universe: UniverseId, worker: WorkerId, key: &[u8]) -> Result<WorldId, StoreError> {
    let mut reader = KeyReader::after(Family::AssignedWorld, &prefix(universe, worker), key)?;
    let world = reader.world()?;
    reader.end(world)
}

/// The worker whose world a key of this family names.
pub(crate) fn worker_of(universe: UniverseId, key: &[u8]) -> Result<WorkerId, StoreError> {
    let mut reader = KeyReader::after(Family::AssignedWorld, &Family::AssignedWorld.prefix(universe), key)?;
    let number = reader.u64()?;
    WorkerId::new(number).ok_or_else(|| reader.bad())
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    world: WorldId,
) -> Result<(), StoreError> {
    Ok(tx.put(key(universe, worker, world).as_bytes(), Vec::new())?)
}

pub(crate) fn remove<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    world: WorldId,
) -> Result<(), StoreError> {
    Ok(tx.delete(key(universe, worker, world).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_world(worker in laws::workers(), a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |world| key(universe, worker, *world), |key| parse(universe, worker, key))?;
        }
    }
}
