//! Renew leases, many at once.
//!
//! Guarantees: only the holder under the current epoch renews. The lease itself is not written, only its term, so
//! that a renewal never conflicts with the turns that it keeps alive. A lost lease does not hinder the others. A process that holds a world
//! that is assigned to someone else is notified: it may have been quicker than the placement, or have missed the word to go.
//! Unknown commit: run again; renewing twice is renewing once.

use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        assignment, lease,
        lease_term::{self, LeaseTerm},
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{WorkerId, limits};

#[derive(Debug, Clone)]
pub struct RenewLeases {
    pub worker: WorkerId,
    /// At most [`RENEWALS_MAX`](limits::RENEWALS_MAX); those beyond are left for the next call.
    pub fences: Vec<Fence>,
    pub now_ns: u64,
    pub ttl_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renewed {
    pub renewed: Vec<Fence>,
    /// Their worlds must be dropped from memory at once.
    pub lost: Vec<Fence>,
    /// Renewed, and to be given back: they are assigned to another worker.
    pub elsewhere: Vec<Fence>,
}

impl RenewLeases {
    fn fences(&self) -> impl Iterator<Item = &Fence> {
        self.fences.iter().take(limits::RENEWALS_MAX)
    }
}

impl Protocol for RenewLeases {
    type Output = Renewed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let keys = |fence: &Fence| [lease::key, assignment::key].map(|key| key(fence.universe, fence.world).planned());
        ReadPlan::reads(self.fences().flat_map(keys))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Renewed, StoreError> {
        let expires_at_ns = self.now_ns.saturating_add(self.ttl_ns);
        let mut result = Renewed::default();
        for fence in self.fences() {
            let lease = lease::read(tx, fence.universe, fence.world).await?;
            let ours = lease.is_some_and(|lease| lease.epoch == fence.epoch && lease.holder == Some(self.worker));
            if ours {
                lease_term::write(tx, fence.universe, fence.world, &LeaseTerm { expires_at_ns })?;
                result.renewed.push(*fence);
                let assigned = assignment::read_snapshot(tx, fence.universe, fence.world).await?;
                if assigned.and_then(|assigned| assigned.desired).is_some_and(|desired| desired != self.worker) {
                    result.elsewhere.push(*fence);
                }
            } else {
                result.lost.push(*fence);
            }
        }
        Ok(result)
    }
}
