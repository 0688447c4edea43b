//! The policy of a pool's watchers, and the heartbeats of holders.

use super::{Ops, Pool};
use crate::{Plane, RuntimeError};
use mundi_model::{
    Code,
    pool::{LeaseAuthority, LeaseId},
    watch::WatchPolicy,
};
use mundi_store::{
    StoreError,
    protocol::{BeatLease, FindWatch, PoolError, SetWatch},
};

impl<P: Plane> Ops<P> {
    /// The policy of a pool, if it is watched.
    pub async fn pool_watch(&self, pool: &Pool) -> Result<Option<WatchPolicy>, RuntimeError> {
        Ok(self.plane.run(&FindWatch { universe: self.universe, name: pool.name.clone() }).await?.output)
    }

    /// Has a pool watched by a policy, or by nobody.
    pub async fn pool_set_watch(&self, pool: &Pool, policy: Option<WatchPolicy>) -> Result<(), RuntimeError> {
        if let Some(policy) = &policy {
            let invalid = |reason| RuntimeError::CommandFailed { code: Code::RequestInvalid, reason };
            policy.check().map_err(|error| invalid(error.to_string()))?;
        }
        self.plane.run(&SetWatch { universe: self.universe, name: pool.name.clone(), policy }).await?;
        Ok(())
    }

    /// The holder of an active lease says that it is there.
    pub async fn pool_beat(&self, pool: &Pool, lease: LeaseId, authority: LeaseAuthority) -> Result<(), RuntimeError> {
        let shard = pool.shard_of_lease(lease).ok_or(StoreError::from(PoolError::NoAuthority(lease)))?;
        let world = self.pool_world(pool, shard)?;
        self.plane.run(&BeatLease { universe: self.universe, pool: world, lease, authority }).await?;
        Ok(())
    }
}
