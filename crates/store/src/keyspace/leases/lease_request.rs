//! `u/<u>/w/<w>/lease/request`: the operation that gets a world's lease next, on behalf of an operator.
//!
//! Written by `take_over_lease` while another worker holds the lease; removed by the same protocol when it has the lease, and when it
//! gives up. Free: it only decides who may *try*, and it expires, so that a requester that crashed keeps nobody from the world.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRequest {
    #[n(0)]
    pub by: WorkerId,
    #[n(1)]
    pub expires_at_ns: u64,
}

impl LeaseRequest {
    /// How long it still keeps `worker` from the lease; 0 if it does not.
    pub fn left_ns(&self, worker: WorkerId, now_ns: u64) -> u64 {
        if self.by == worker { 0 } else { self.expires_at_ns.saturating_sub(now_ns) }
    }
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::LeaseRequest).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<LeaseRequest>, StoreError> {
    get(tx, Family::LeaseRequest, &key(universe, world)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    request: &LeaseRequest,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(by in laws::workers(), expires_at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::LeaseRequest, &LeaseRequest { by, expires_at_ns }, &noise)?;
        }
    }
}
