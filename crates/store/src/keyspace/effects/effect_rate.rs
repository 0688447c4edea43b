//! `u/<u>/w/<w>/effects/rate/<kind>`: when a world that is limited in a kind of effect may next ask for it.
//!
//! Written by a claim. One number: the time at which the last granted call would have begun if calls came evenly.
//! It lies with its world, and goes with it. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put, queue_shard::kind_hash};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EffectRate {
    /// From here on the next call is on time; before it, a call uses up the burst.
    #[n(0)]
    pub even_ns: u64,
}

pub fn key(universe: UniverseId, world: WorldId, kind: &str) -> Key {
    KeyBuilder::world(universe, world, Family::EffectRate).u64(kind_hash(kind)).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    kind: &str,
) -> Result<Option<EffectRate>, StoreError> {
    get(tx, Family::EffectRate, &key(universe, world, kind)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    kind: &str,
    rate: &EffectRate,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, kind), rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(even_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::EffectRate, &EffectRate { even_ns }, &noise)?;
        }
    }
}
