//! The fence: proof of the right to mutate a world.

use crate::{
    StoreError,
    keyspace::lease::{self, Lease},
    protocol::require_world,
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, Coded, Epoch, UniverseId, WorldId,
    mutants::{Mutant, planted},
};

/// A world, and the epoch of the lease under which its holder writes.
///
/// Every mutation of a world takes one and checks it inside its transaction. The check reads the lease
/// key, so an acquisition that commits first makes this commit conflict: there is no moment between
/// check and write. Whether the world lives is not asked besides: who archives it releases the lease with that, and who deletes
/// it has acquired the lease before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub universe: UniverseId,
    pub world: WorldId,
    pub epoch: Epoch,
}

impl Fence {
    /// Refuses unless the lease is held under exactly this epoch.
    ///
    /// No clock is asked: a lease that has expired but was not taken by anyone still fences correctly.
    pub async fn check<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.lease(tx).await.map(drop)
    }

    /// As [`Self::check`]; says what the lease is.
    pub(crate) async fn lease<T: Transaction>(&self, tx: &mut T) -> Result<Lease, StoreError> {
        let lease = lease::read(tx, self.universe, self.world).await?;
        match lease {
            Some(lease) if planted(Mutant::FenceDropped) => Ok(lease),
            Some(lease) if lease.epoch == self.epoch && lease.holder.is_some() => Ok(lease),
            None => Err(self.never_leased(tx).await?),
            Some(lease) => Err(Fenced { fence: *self, current: Some(lease.epoch) }.into()),
        }
    }

    /// A fence for a world that does not exist is another mistake than a fence that was lost.
    async fn never_leased<T: Transaction>(&self, tx: &mut T) -> Result<StoreError, StoreError> {
        require_world(tx, self.universe, self.world).await?;
        Ok(Fenced { fence: *self, current: None }.into())
    }
}

/// The right to mutate a world was lost. Its in-memory state must be dropped at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} is not held under {:?} any more (now {current:?})", fence.world, fence.epoch)]
pub struct Fenced {
    pub fence: Fence,
    /// The epoch that the lease has now: the same one when it was released, none if there never was a lease.
    pub current: Option<Epoch>,
}

impl Coded for Fenced {
    fn code(&self) -> Code {
        Code::LeaseFenced
    }
}
