//! Take a world's lease over from its holder, through the holder's own release: for what an operator asks of a world from a process that
//! does not run it.
//!
//! Guarantees: as `acquire_lease` it never takes a lease that has not expired, and the epoch rises. Unlike `acquire_lease` it asks for no
//! assignment: a world that waits for its worker, or whose worker is gone, can be had. While another worker holds the lease, a request
//! is left behind that keeps everybody else from acquiring it next, and the holder is told to release it. The request expires, so a
//! requester that crashes keeps nobody from the world.
//! Unknown commit: run again; a request is written again, and a lease that was taken is the requester's own and is taken again.

use crate::protocol::{LeaseError, WorldError, require_runnable, require_world};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        lease::{self, Lease},
        lease_request::{self, LeaseRequest},
        lease_term::{self, LeaseTerm},
        world_meta::WorldState,
    },
};
use mundi_engine::Transaction;
use mundi_model::{Epoch, UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct TakeOverLease {
    pub universe: UniverseId,
    pub world: WorldId,
    /// Drawn for this one request, so that it is never mistaken for a worker that runs worlds.
    pub by: WorkerId,
    pub now_ns: u64,
    pub ttl_ns: u64,
    /// How long the request keeps others away if it is not repeated.
    pub request_ttl_ns: u64,
    pub purpose: Purpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The world must be live, and not on hold.
    Upkeep,
    /// It is being deleted: nobody else may acquire it, and requests for its upkeep do not count any more.
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenOver {
    Now(Fence),
    /// The request stands; its holder is to release the lease.
    Requested(LeaseError),
    /// Another request came first.
    Waits(LeaseError),
}

impl Protocol for TakeOverLease {
    type Output = TakenOver;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<TakenOver, StoreError> {
        let Self { universe, world, by, now_ns, ttl_ns, request_ttl_ns, purpose } = *self;
        match purpose {
            Purpose::Upkeep => {
                require_runnable(tx, universe, world).await?;
            }
            Purpose::Delete if require_world(tx, universe, world).await?.state == WorldState::Deleted => {
                return Err(WorldError::Deleted(world).into());
            }
            Purpose::Delete => {}
        }
        let request = match purpose {
            Purpose::Upkeep => lease_request::read(tx, universe, world).await?,
            Purpose::Delete => None,
        };
        let lease = lease::read(tx, universe, world).await?;
        let term = lease_term::read(tx, universe, world).await?;
        let planned = plan(self, request, lease, term);
        match &planned {
            Planned::Take(epoch) => {
                lease::write(tx, universe, world, &Lease::held_by(*epoch, by))?;
                let expires_at_ns = now_ns.saturating_add(ttl_ns);
                lease_term::write(tx, universe, world, &LeaseTerm { expires_at_ns })?;
                tx.delete(lease_request::key(universe, world).as_bytes())?;
                Ok(TakenOver::Now(Fence { universe, world, epoch: *epoch }))
            }
            Planned::Request(held) => {
                let expires_at_ns = now_ns.saturating_add(request_ttl_ns);
                lease_request::write(tx, universe, world, &LeaseRequest { by, expires_at_ns })?;
                Ok(TakenOver::Requested(*held))
            }
            Planned::Wait(requested) => Ok(TakenOver::Waits(*requested)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Planned {
    Take(Epoch),
    Request(LeaseError),
    Wait(LeaseError),
}

fn plan(take: &TakeOverLease, request: Option<LeaseRequest>, lease: Option<Lease>, term: Option<LeaseTerm>) -> Planned {
    let (world, now_ns) = (take.world, take.now_ns);
    if let Some(LeaseRequest { by, .. }) = request
        && let left_ns @ 1.. = request.map_or(0, |request| request.left_ns(take.by, now_ns))
    {
        return Planned::Wait(LeaseError::Requested { world, by, left_ns });
    }
    let Some(Lease { epoch, holder, .. }) = lease else { return Planned::Take(Epoch::INITIAL) };
    let left_ns = term.map_or(0, |term| term.expires_at_ns.saturating_sub(now_ns));
    match holder {
        Some(holder) if holder != take.by && left_ns > 0 => {
            Planned::Request(LeaseError::Held { world, holder, epoch, left_ns })
        }
        _ => Planned::Take(epoch.next()),
    }
}

/// Withdraws a request, if it is this one's, so that others need not wait until it expires.
#[derive(Debug, Clone, Copy)]
pub struct WithdrawLeaseRequest {
    pub universe: UniverseId,
    pub world: WorldId,
    pub by: WorkerId,
}

impl Protocol for WithdrawLeaseRequest {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, world, by } = *self;
        match lease_request::read(tx, universe, world).await? {
            Some(request) if request.by == by => Ok(tx.delete(lease_request::key(universe, world).as_bytes())?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(n: u64) -> WorkerId {
        WorkerId::new(n).unwrap()
    }

    fn take(by: u64) -> TakeOverLease {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let (now_ns, ttl_ns, request_ttl_ns) = (100, 20, 10);
        TakeOverLease { universe, world, by: worker(by), now_ns, ttl_ns, request_ttl_ns, purpose: Purpose::Upkeep }
    }

    fn request(by: u64, expires_at_ns: u64) -> Option<LeaseRequest> {
        Some(LeaseRequest { by: worker(by), expires_at_ns })
    }

    fn lease(holder: Option<u64>) -> Option<Lease> {
        Some(Lease { epoch: Epoch::new(7).unwrap(), holder: holder.map(worker), probation: None })
    }

    fn term(expires_at_ns: u64) -> Option<LeaseTerm> {
        Some(LeaseTerm { expires_at_ns })
    }

    #[test]
    fn a_lease_that_is_free_released_expired_or_its_own_is_taken_with_a_higher_epoch() {
        assert_eq!(plan(&take(9), None, None, None), Planned::Take(Epoch::INITIAL));
        for (holder, until) in [(None, None), (Some(1), term(100)), (Some(9), term(500))] {
            assert_eq!(plan(&take(9), request(9, 500), lease(holder), until), Planned::Take(Epoch::new(8).unwrap()));
        }
    }

    #[test]
    fn a_lease_that_is_held_is_requested_and_never_stolen() {
        let planned = plan(&take(9), None, lease(Some(1)), term(101));
        assert!(matches!(planned, Planned::Request(LeaseError::Held { left_ns: 1, .. })));
    }

    #[test]
    fn the_request_of_another_is_waited_for_until_it_expires() {
        for holder in [None, Some(1)] {
            let planned = plan(&take(9), request(8, 103), lease(holder), term(500));
            assert!(matches!(planned, Planned::Wait(LeaseError::Requested { left_ns: 3, .. })));
        }
        assert_eq!(plan(&take(9), request(8, 100), lease(None), None), Planned::Take(Epoch::new(8).unwrap()));
    }
}
