//! `u/<u>/w/<w>/lease/term`: until when the holder of a world's lease counts as alive.
//!
//! Written by `acquire_lease`, `renew_lease`, `release_lease` and `archive_world`. Free: clocks only decide when to *try* to
//! acquire, and safety rests on the epoch alone.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LeaseTerm {
    #[n(0)]
    pub expires_at_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::LeaseTerm).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<LeaseTerm>, StoreError> {
    get(tx, Family::LeaseTerm, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    term: &LeaseTerm,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(expires_at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::LeaseTerm, &LeaseTerm { expires_at_ns }, &noise)?;
        }
    }
}
