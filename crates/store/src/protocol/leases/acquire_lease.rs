//! Acquire a world's lease.
//!
//! Guarantees: at most one holder at a time; the epoch rises with every acquisition, for the life of the world and
//! beyond it. An assignment to another worker is respected, and a lease that has not expired is never taken from
//! another worker, whatever its heartbeats do. While an operator's request for the lease stands, nobody else gets it. Nobody acquires a
//! world that is on hold. A worker may take its own again: it restarted, or lost the reply.
//! A holder that never released the world may have been ended by it, so the next worker's first cycle is on probation: should that worker,
//! too, end before a turn or `end_probation`, the one after it counts a death. A world that counts any is acquired only by a worker that lets no
//! other such cycle run beside it, so that worlds that happen to run beside the one that ends processes are not counted with it again.
//! Unknown commit: run again; the epoch may then rise by two, and no death is counted: the same life acquires it again.

use crate::protocol::{LeaseError, require_runnable};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        assignment::{self, Assignment},
        last_active,
        lease::{self, Lease, Probation},
        lease_request,
        lease_term::{self, LeaseTerm},
        world_meta,
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{Epoch, UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct AcquireLease {
    pub universe: UniverseId,
    pub world: WorldId,
    pub worker: WorkerId,
    pub now_ns: u64,
    pub ttl_ns: u64,
    /// `None` for a holder that takes no turns: nothing is counted against the world, and what was counted is forgotten.
    pub opening: Option<Opening>,
}

/// How a worker that takes turns opens a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// When its process started.
    pub life_ns: u64,
    pub pass: Pass,
}

/// Which first cycles on probation may begin in the worker's process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// None: one that must be alone is in progress.
    None,
    /// Those of worlds that count no death yet.
    Together,
    /// This one, whatever its world counts: no other is in progress.
    Alone,
}

/// A lease that was acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquired {
    pub fence: Fence,
    /// How many holders in a row ended in their first cycle of the world, if the worker's own is on probation: it ends that.
    pub deaths: Option<u32>,
    /// The world was on hold because it ended processes, and somebody released it.
    pub after_hold: bool,
}

impl Protocol for AcquireLease {
    type Output = Acquired;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let keys = [world_meta::key, assignment::key, lease::key, lease_term::key, lease_request::key];
        let active = self.opening.map(|_| last_active::key(self.universe, self.world).planned());
        ReadPlan::reads(keys.map(|key| key(self.universe, self.world).planned()).into_iter().chain(active))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Acquired, StoreError> {
        let Self { universe, world, worker, now_ns, ttl_ns, .. } = *self;
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
        let probation = probation(self, lease)?;
        lease::write(tx, universe, world, &Lease { epoch, holder: Some(worker), probation })?;
        let expires_at_ns = now_ns.saturating_add(ttl_ns);
        lease_term::write(tx, universe, world, &LeaseTerm { expires_at_ns })?;
        if self.opening.is_some() {
            last_active::write(tx, universe, world, now_ns).await?;
        }
        let fence = Fence { universe, world, epoch };
        let after_hold = lease.is_some_and(|before| before.holder.is_none()) && probation.is_some();
        Ok(Acquired { fence, deaths: probation.map(|probation| probation.deaths), after_hold })
    }
}

/// Whether the first cycle of this holder is on probation; refuses if it may not begin now.
fn probation(request: &AcquireLease, lease: Option<Lease>) -> Result<Option<Probation>, LeaseError> {
    let Some(Opening { life_ns, pass }) = request.opening else { return Ok(None) };
    let Some(Lease { holder, probation, .. }) = lease else { return Ok(None) };
    let is_same_life = |before: Probation| holder == Some(request.worker) && before.life_ns == life_ns;
    let deaths = match (holder, probation) {
        (None, None) => return Ok(None),
        (Some(_), None) => 0,
        (None, Some(before)) => before.deaths,
        (Some(_), Some(before)) if is_same_life(before) => before.deaths,
        (Some(_), Some(before)) => before.deaths.saturating_add(1),
    };
    let needed = if deaths == 0 { Pass::Together } else { Pass::Alone };
    match pass >= needed {
        true => Ok(Some(Probation { deaths, life_ns })),
        false => Err(LeaseError::OnProbation { world: request.world, deaths }),
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
    let Some(Lease { epoch, holder, .. }) = lease else { return Ok(Epoch::INITIAL) };
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
        AcquireLease { universe, world, worker: worker(by), now_ns: 100, ttl_ns: 20, opening: None }
    }

    fn held(by: Option<u64>, epoch: u64) -> Option<Lease> {
        Some(Lease { epoch: Epoch::new(epoch).unwrap(), holder: by.map(worker), probation: None })
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

    /// Once a lapsed heartbeat was enough to take a lease that had not expired.
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

    fn opens(by: u64, life_ns: u64, pass: Pass) -> AcquireLease {
        AcquireLease { opening: Some(Opening { life_ns, pass }), ..request(by) }
    }

    fn on_probation(by: u64, life_ns: u64, deaths: u32) -> Option<Lease> {
        Some(Lease { probation: Some(Probation { deaths, life_ns }), ..held(Some(by), 7).unwrap() })
    }

    fn deaths(request: &AcquireLease, lease: Option<Lease>) -> Option<u32> {
        probation(request, lease).unwrap().map(|probation| probation.deaths)
    }

    #[test]
    fn only_a_holder_that_ended_in_its_first_cycle_counts_against_a_world() {
        let second = opens(1, 20, Pass::Alone);
        assert_eq!(deaths(&second, None), None);
        assert_eq!(deaths(&second, held(None, 7)), None, "it was released");
        assert_eq!(deaths(&second, held(Some(1), 7)), Some(0), "its first cycle was over");
        for (lease, expected) in [(on_probation(1, 10, 0), 1), (on_probation(2, 20, 1), 2), (on_probation(1, 20, 1), 1)]
        {
            assert_eq!(deaths(&second, lease), Some(expected), "{lease:?}");
        }
        assert_eq!(deaths(&request(1), on_probation(2, 20, 2)), None, "who takes no turns forgets it");
        let after_hold = on_probation(2, 10, 1).map(|lease| Lease { holder: None, ..lease });
        assert_eq!(deaths(&second, after_hold), Some(1), "nobody ended since it was put on hold");
    }

    #[test]
    fn what_counts_a_death_is_opened_alone_and_the_rest_beside_others_of_its_kind() {
        let refused = |pass, lease| probation(&opens(1, 20, pass), lease).is_err();
        let (clean, first, suspect) = (held(None, 7), held(Some(2), 7), on_probation(2, 10, 0));
        assert_eq!([clean, first, suspect].map(|lease| refused(Pass::None, lease)), [false, true, true]);
        assert_eq!([clean, first, suspect].map(|lease| refused(Pass::Together, lease)), [false, false, true]);
        assert_eq!([clean, first, suspect].map(|lease| refused(Pass::Alone, lease)), [false; 3]);
    }
}
