//! `u/<u>/w/<w>/lease`: who holds a world, and under which epoch.
//!
//! Written by `acquire_lease`, `release_lease` and `archive_world`. The epoch is monotonic, and the key is never deleted, not
//! even with its world: a token is never reborn. The expiry is kept beside it, in [`lease_term`](super::lease_term),
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
        fn the_value_survives(epoch in 1u64.., holder in prop::option::of(laws::workers()), noise: Vec<u8>) {
            let epoch = Epoch::new(epoch).unwrap();
            laws::value_survives(Family::Lease, &Lease { epoch, holder }, &noise)?;
        }
    }
}
