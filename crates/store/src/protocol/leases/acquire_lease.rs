//! Acquire a world's lease.
//!
//! Guarantees: at most one holder at a time; the epoch rises with every acquisition, for the life of the world and
//! beyond it. An assignment to another worker is respected, and a lease that has not run out is never taken from
//! another worker, whatever its heartbeats do. While an operator's request for the lease stands, nobody else gets it. Nobody acquires a
//! world that is on hold. A worker may take its own again: it restarted, or lost the reply.
//! Unknown commit: run again; the epoch may then rise by two.

use crate::protocol::{LeaseError, require_runnable};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        assignment::{self, Assignment},
        lease::{self, Lease},
        lease_request,
        lease_term::{self, LeaseTerm},
        world_meta,
    },
};
use mundi_engine::Transaction;
use mundi_model::{Epoch, UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct AcquireLease {
    pub universe: UniverseId,
    pub world: WorldId,
    pub worker: WorkerId,
    pub now_ns: u64,
    pub ttl_ns: u64,
}

impl Protocol for AcquireLease {
    type Output = Fence;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Fence, StoreError> {
        let Self { universe, world, worker, now_ns, ttl_ns } = *self;
        let keys = [world_meta::key, assignment::key, lease::key, lease_term::key, lease_request::key];
        tx.announce(|| keys.map(|key| key(universe, world).announced()));
        require_runnable(tx, universe, world).await?;
        if let Some(request) = lease_request::read(tx, universe, world).await?
            && let left_ns @ 1.. = request.left_ns(worker, now_ns)
        {
            return Err(LeaseError::Requested { world, by: request.by, left_ns }.into());
        }
        let assigned = assignment::read(tx, universe, world).await?;
        let lease = lease::read(tx, universe, world).await?;
        let term = lease_term::read(tx, universe, world).await?;
        let epoch = plan(self, assigned.as_ref(), lease, term)?;
        lease::write(tx, universe, world, &Lease { epoch, holder: Some(worker) })?;
        let expires_at_ns = now_ns.saturating_add(ttl_ns);
        lease_term::write(tx, universe, world, &LeaseTerm { expires_at_ns })?;
        Ok(Fence { universe, world, epoch })
    }
}

fn plan(
    request: &AcquireLease,
    assigned: Option<&Assignment>,
    lease: Option<Lease>,
    term: Option<LeaseTerm>,
) -> Result<Epoch, LeaseError> {
    let world = request.world;
    if let Some(desired) = assigned.and_then(|assigned| assigned.desired)
        && desired != request.worker
    {
        return Err(LeaseError::AssignedElsewhere { world, desired });
    }
    let Some(Lease { epoch, holder }) = lease else { return Ok(Epoch::INITIAL) };
    let left_ns = term.map_or(0, |term| term.expires_at_ns.saturating_sub(request.now_ns));
    match holder {
        Some(holder) if holder != request.worker && left_ns > 0 => {
            Err(LeaseError::Held { world, holder, epoch, left_ns })
        }
        _ => Ok(epoch.next()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    fn request(by: u64) -> AcquireLease {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        AcquireLease { universe, world, worker: worker(by), now_ns: 100, ttl_ns: 20 }
    }

    fn held(by: Option<u64>, epoch: u64) -> Option<Lease> {
        Some(Lease { epoch: Epoch::new(epoch).unwrap(), holder: by.map(worker) })
    }

    fn until(expires_at_ns: u64) -> Option<LeaseTerm> {
        Some(LeaseTerm { expires_at_ns })
    }

    #[test]
    fn the_epoch_rises_over_release_and_expiry() {
        assert_eq!(plan(&request(1), None, None, None), Ok(Epoch::INITIAL));
        assert_eq!(plan(&request(1), None, held(None, 7), None).unwrap().get(), 8);
        assert_eq!(plan(&request(1), None, held(Some(2), 7), until(100)).unwrap().get(), 8);
        assert_eq!(plan(&request(1), None, held(Some(1), 7), until(500)).unwrap().get(), 8);
    }

    /// Once a lapsed heartbeat was enough to take a lease that had not run out.
    #[test]
    fn an_unexpired_lease_is_never_stolen() {
        let refused = plan(&request(1), None, held(Some(2), 7), until(101));
        assert!(matches!(refused, Err(LeaseError::Held { left_ns: 1, .. })));
    }

    /// Once acquire ignored the pin.
    #[test]
    fn an_assignment_to_another_worker_is_respected() {
        let to = |n: Option<u64>| Assignment { desired: n.map(worker), pinned: true, priority: 0, reason: None };
        let refused = plan(&request(1), Some(&to(Some(2))), None, None);
        assert!(matches!(refused, Err(LeaseError::AssignedElsewhere { .. })));
        assert!(plan(&request(1), Some(&to(Some(1))), None, None).is_ok());
        assert!(plan(&request(1), Some(&to(None)), None, None).is_ok());
    }
}
