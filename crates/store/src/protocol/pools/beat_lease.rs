//! A heartbeat of the holder of an active lease.
//!
//! Guarantees: it counts only if the holder has authority at this moment. The authority's key is read with a conflict, so a revoke that commits
//! first refuses it, and no beat outlives its lease.
//! Unknown commit: run again; a beat that counts twice says the same.

use super::PoolError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{lease_authority, lease_beat},
};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    pool::{LeaseAuthority, LeaseId},
};

#[derive(Debug, Clone, Copy)]
pub struct BeatLease {
    pub universe: UniverseId,
    /// The world of the shard that the lease lies in.
    pub pool: WorldId,
    pub lease: LeaseId,
    /// As its holder knows it.
    pub authority: LeaseAuthority,
}

impl Protocol for BeatLease {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, pool, lease, authority } = *self;
        match lease_authority::read(tx, universe, pool, lease).await? {
            Some(current) if current == authority => lease_beat::bump(tx, universe, pool, lease),
            Some(current) if current.holder != authority.holder => Err(PoolError::HolderMismatch(lease).into()),
            _ => Err(PoolError::NoAuthority(lease).into()),
        }
    }
}
