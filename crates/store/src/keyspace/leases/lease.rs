//! `u/<u>/w/<w>/lease`: the holder of a world and its epoch.
//!
//! Written by `acquire_lease`, `end_probation`, `release_lease` and `archive_world`. The epoch is monotonic, and the key is never deleted, not
//! even with its world: a token is never reborn. The expiry is kept beside it, in [`lease_term`](crate::keyspace::lease_term),
//! so that a renewal does not conflict with the turns that read this key as their fence.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Epoch, UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Lease {
    #[n(0)]
    pub epoch: Epoch,
    /// `None` after a release.
    #[n(1)]
    pub holder: Option<WorkerId>,
    /// The holder is in its first cycle of a world that the holder before it never released; `None` as soon as that cycle is over. Without a
    /// holder: the world is on hold for that reason, or was released from it.
    #[n(2)]
    pub probation: Option<Probation>,
}

/// A first cycle that perhaps ends the process: the one before did, if it was still on probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Probation {
    /// How many holders in a row ended in such a cycle.
    #[n(0)]
    pub deaths: u32,
    /// When the holder's process started: the same one may acquire its lease again, and has not ended meanwhile.
    #[n(1)]
    pub life_ns: u64,
}

impl Lease {
    pub fn held_by(epoch: Epoch, holder: WorkerId) -> Self {
        Self { epoch, holder: Some(holder), probation: None }
    }
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::Lease).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Lease>, StoreError> {
    get(tx, Family::Lease, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    lease: &Lease,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(
            epoch in 1u64..,
            holder in prop::option::of(laws::workers()),
            deaths: Option<u32>,
            life_ns: u64,
            noise: Vec<u8>,
        ) {
            let (epoch, probation) = (Epoch::new(epoch).unwrap(), deaths.map(|deaths| Probation { deaths, life_ns }));
            laws::value_survives(Family::Lease, &Lease { epoch, holder, probation }, &noise)?;
        }
    }
}
