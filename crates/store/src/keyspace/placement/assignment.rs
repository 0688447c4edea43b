//! `u/<u>/assignments/<world>`: where a world should run.
//!
//! Written by the orchestrator and by operators. Free: it is intent; workers act on it.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, get_snapshot, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Assignment {
    /// Only this worker may acquire the lease; `None` lets any worker.
    #[n(0)]
    pub desired: Option<WorkerId>,
    /// An operator pinned it: placement leaves it alone.
    #[n(1)]
    pub pinned: bool,
    #[n(2)]
    pub priority: u8,
    #[n(3)]
    pub reason: Option<String>,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::Assignment).bytes(world.as_bytes()).key()
}

pub fn prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::Assignment).key()
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<WorldId, StoreError> {
    let mut reader = KeyReader::after(Family::Assignment, &prefix(universe), key)?;
    let world = reader.world()?;
    reader.end(world)
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Assignment>, StoreError> {
    get(tx, Family::Assignment, &key(universe, world)).await
}

/// As [`read`], for those who only look: adds no conflict.
pub(crate) async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Assignment>, StoreError> {
    get_snapshot(tx, Family::Assignment, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    assignment: &Assignment,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), assignment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_world(a in laws::worlds(), b in laws::worlds()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |world| key(universe, *world), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(
            desired in prop::option::of(laws::workers()),
            pinned: bool,
            priority: u8,
            reason: Option<String>,
            noise: Vec<u8>,
        ) {
            laws::value_survives(Family::Assignment, &Assignment { desired, pinned, priority, reason }, &noise)?;
        }
    }
}
