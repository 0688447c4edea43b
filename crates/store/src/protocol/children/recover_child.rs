//! Recover one child whose executor is gone.
//!
//! Guarantees: of a parent's children whose leases have run out, or belong to a worker that is known to be gone, the one with the smallest
//! `dispatch_seq` ends: with `URM_CHILD_TERMINATED_ON_RESTART` if its token says that it started, else with the reason `lease_orphaned` and
//! `URM_SCHEDULER_LEASE_ORPHANED`. Nothing is dispatched again. Queued children stay queued. A lease without an end is not touched.
//! A cancel request that the executor did not live to answer is part of the end's lineage.
//! A child that started is debited for its time until its lease ran out, or until this transaction if that is earlier: longer it cannot have run. If the
//! budget has no room for that, no total changes, and the end keeps its code.
//! Unknown commit: run again; a child that was recovered is not active any more, and the next one is looked at.

use super::{
    debit_child::debit,
    transition::{End, Parent, leave},
};
use crate::{OnUnknown, Protocol, StoreError, keyspace::child_state::ActiveChild};
use mundi_engine::Transaction;
use mundi_model::{
    Code, UniverseId, WorkerId, WorldId,
    child::{ChildId, DispatchToken, Phase, Spend},
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone, Copy)]
pub struct RecoverChild {
    pub universe: UniverseId,
    pub parent: WorldId,
    /// All leases of this worker are those of a process that is gone.
    pub gone: Option<WorkerId>,
    pub now_ns: u64,
}

/// The child that was recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub child: ChildId,
    pub dispatch_seq: u64,
    pub kind: String,
    pub code: Code,
}

impl Protocol for RecoverChild {
    /// `None` if no lease has run out.
    type Output = Option<Recovered>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Recovered>, StoreError> {
        let parent = Parent { universe: self.universe, world: self.parent, now_ns: self.now_ns };
        let mut state = parent.state(tx).await?;
        let Some(active) = self.first(&state.active).cloned() else { return Ok(None) };
        let ActiveChild { dispatch_seq, child, .. } = active;
        let mut token = parent.token(tx, child).await?;
        if token.dispatch_seq != Some(dispatch_seq) {
            let reason =
                format!("{child} is active under the dispatch number {dispatch_seq}, and its token says another");
            return Err(parent.violation(Code::UrmSchedulerReplayOrderInvalid, reason));
        }
        let spent = lasted(&token, &active, self.now_ns);
        debit(tx, &parent, &mut token, spent).await?;
        let ((end, code), kind) = (plan(&token), token.kind.clone());
        leave(&mut state, child);
        parent.end(tx, &mut state, token, &end).await?;
        Ok(Some(Recovered { child, dispatch_seq, kind, code }))
    }
}

impl RecoverChild {
    /// The first one that is orphaned, in the order of their dispatch.
    fn first<'a>(&self, active: &'a [ActiveChild]) -> Option<&'a ActiveChild> {
        let mut orphans = active.iter().filter(|active| {
            let without_end = planted(Mutant::ChildWorldRecovered);
            let is_over = active.lease.deadline_ns.map_or(without_end, |deadline| deadline <= self.now_ns);
            is_over || active.lease.deadline_ns.is_some() && Some(active.lease.worker) == self.gone
        });
        if planted(Mutant::RecoveryUnordered) {
            return orphans.next_back();
        }
        orphans.min_by_key(|active| active.dispatch_seq)
    }
}

/// Started or not: the token alone says so.
fn plan(token: &DispatchToken) -> (End, Code) {
    let (code, reason) = match token.phase.is_start_observed() {
        true => (Code::UrmChildTerminatedOnRestart, "terminated_on_restart"),
        false => (Code::UrmSchedulerLeaseOrphaned, "lease_orphaned"),
    };
    debug_assert_ne!(token.phase, Phase::Terminal);
    (End::failed(code, reason).after_cancel_of(token), code)
}

/// How long a child can have run at most. It was started at a recorded time, and its executor stops it when the lease runs out.
fn lasted(token: &DispatchToken, active: &ActiveChild, now_ns: u64) -> Spend {
    match token.started_at_ns.filter(|_| token.phase == Phase::Started) {
        Some(started_at_ns) => {
            let until_ns = active.lease.deadline_ns.map_or(now_ns, |deadline_ns| deadline_ns.min(now_ns));
            Spend::default().lasting(started_at_ns, until_ns)
        }
        None => Spend::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::transition::tests::token;
    use super::*;
    use mundi_model::child::ChildLease;
    use proptest::prelude::*;

    #[test]
    fn the_phase_alone_decides_about_the_code() {
        assert_eq!(plan(&token(Phase::Leased)).1, Code::UrmSchedulerLeaseOrphaned);
        assert_eq!(plan(&token(Phase::Started)).1, Code::UrmChildTerminatedOnRestart);
        let mut cancelled = token(Phase::Started);
        cancelled.cancel_request_id = Some("r".into());
        assert!(plan(&cancelled).0.detail.is_of_cancel);
    }

    #[test]
    fn a_child_ran_until_its_lease_ended_or_was_found_ended() {
        let second_ns = 1_000_000_000;
        let lease = ChildLease { worker: WorkerId::new(1).unwrap(), token: [0; 16], deadline_ns: Some(9 * second_ns) };
        let mut started = token(Phase::Started);
        started.started_at_ns = Some(2 * second_ns);
        let active = ActiveChild { dispatch_seq: 1, child: started.child, lease, phase: Phase::Started, cancel: false };
        let secs = |token: &DispatchToken, now| lasted(token, &active, now * second_ns).duration_secs;
        assert_eq!([secs(&started, 5), secs(&started, 9), secs(&started, 99)], [Some(3), Some(7), Some(7)]);
        assert_eq!(secs(&token(Phase::Leased), 99), None, "it did not run");
    }

    proptest! {
        #[test]
        fn children_are_recovered_in_the_order_of_their_dispatch(
            leases in proptest::collection::vec((0..9u64, proptest::option::of(0..20u64), 1..3u64), 0..8),
            now_ns in 0..20u64,
            gone in proptest::option::of(1..3u64),
        ) {
            let mut active: Vec<_> = leases.iter().map(|(dispatch_seq, deadline_ns, worker)| ActiveChild {
                dispatch_seq: *dispatch_seq,
                child: ChildId::from_bytes([u8::try_from(*dispatch_seq).unwrap(); 16]),
                lease: ChildLease { worker: WorkerId::new(*worker).unwrap(), token: [0; 16], deadline_ns: *deadline_ns },
                phase: Phase::Leased,
                cancel: false,
            }).collect();
            let gone = gone.and_then(WorkerId::new);
            let (universe, parent) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([1; 16]));
            let recover = RecoverChild { universe, parent, gone, now_ns };
            let mut last = 0;
            while let Some(found) = recover.first(&active).cloned() {
                prop_assert!(found.dispatch_seq >= last && found.lease.deadline_ns.is_some());
                last = found.dispatch_seq;
                let at = active.iter().position(|active| *active == found).unwrap();
                active.remove(at);
            }
            for left in active {
                prop_assert!(left.lease.deadline_ns.is_none_or(|end| end > now_ns && Some(left.lease.worker) != gone));
            }
        }
    }
}
