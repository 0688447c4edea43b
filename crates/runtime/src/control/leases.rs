//! Leases: which worker may write a world.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{Epoch, WorkerId, WorldId};
use mundi_store::{
    Fence, Fenced, StoreError,
    protocol::{AcquireLease, HeldBy, HeldLease, ListWorlds, Page, ReleaseLease, RenewLeases, WorldFilter},
};
use std::time::Duration;

impl<P: Plane> Ops<P> {
    pub async fn acquire_lease(&self, world: WorldId, worker: WorkerId, ttl: Duration) -> Result<Fence, RuntimeError> {
        let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let acquire =
            AcquireLease { universe: self.universe, world, worker, now_ns: self.plane.now_ns(), ttl_ns, opening: None };
        Ok(self.plane.run(&acquire).await?.output.fence)
    }

    /// Refuses with `LEASE_FENCED` when the lease is not held under this epoch any more.
    pub async fn renew_lease(
        &self,
        world: WorldId,
        worker: WorkerId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<(), RuntimeError> {
        let fence = Fence { universe: self.universe, world, epoch };
        let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let renew = RenewLeases { worker, fences: vec![fence], now_ns: self.plane.now_ns(), ttl_ns };
        if self.plane.run(&renew).await?.output.lost.is_empty() {
            return Ok(());
        }
        Err(StoreError::from(Fenced { fence, current: None }).into())
    }

    pub async fn release_lease(&self, world: WorldId, epoch: Epoch) -> Result<(), RuntimeError> {
        let fence = Fence { universe: self.universe, world, epoch };
        self.plane.run(&ReleaseLease { fence, active_at_ns: None }).await?;
        Ok(())
    }

    /// The leases that are held, by world, in pages.
    pub async fn list_leases(
        &self,
        worker: Option<WorkerId>,
        after: Option<WorldId>,
        items_max: usize,
    ) -> Result<Page<(WorldId, HeldLease), WorldId>, RuntimeError> {
        let held = Some(worker.map_or(HeldBy::Anybody, HeldBy::Worker));
        let filter = WorldFilter { held, ..WorldFilter::default() };
        let list = ListWorlds { universe: self.universe, filter, after, items_max };
        let Page { items, next } = self.plane.run(&list).await?.output;
        let items = items.into_iter().filter_map(|found| Some((found.world, found.lease?))).collect();
        Ok(Page { items, next })
    }
}
