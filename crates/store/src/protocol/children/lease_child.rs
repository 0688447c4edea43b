//! Dispatch: the first child that waits gets the parent's next `dispatch_seq`, and an executor.
//!
//! Guarantees: children are leased in the order in which they were spawned; at most as many are active as the parent's manifest allows; a
//! `dispatch_seq` is drawn by one transaction per parent at a time, because each reads and writes the parent's state, and is never drawn again.
//! No child is leased while a lease of the same parent has run out: recovery comes first. A child of a kind that this executor does not
//! serve is not passed over. A parent that is paused, on hold or archived dispatches nothing, and the hint
//! of one that is gone is removed.
//! Unknown commit: run again; an active child with this very lease is the one that an earlier run leased.

use super::{ChildClaim, transition::Parent};
use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, child_order,
        child_order::{dispatch_key, run_key},
        child_state::{ActiveChild, ChildState},
        child_token, child_work, queue_notify,
        world_meta::WorldState,
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, UniverseId, WorkerId, WorldId,
    child::{CHILD_SPAWN, ChildId, ChildLease, DispatchToken, Phase, RunId},
    limits,
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone)]
pub struct LeaseChild {
    pub universe: UniverseId,
    pub parent: WorldId,
    /// The kinds that this executor serves.
    pub kinds: Vec<String>,
    pub worker: WorkerId,
    /// Drawn anew for each attempt at a dispatch.
    pub token: [u8; 16],
    pub ttl_ns: u64,
    pub now_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildDispatched {
    Leased {
        claim: ChildClaim,
        token: Box<DispatchToken>,
    },
    /// The first child in the queue is of a kind that this executor does not serve.
    OtherKind {
        kind: String,
        child: ChildId,
    },
    /// As many children run as may.
    Full,
    /// A lease has run out: recover first.
    RecoverFirst,
    /// The parent is archived: its children are to be cancelled.
    ParentArchived,
    /// Nothing waits, or the parent does not dispatch now.
    Idle,
}

/// The decision that the parent's state alone allows.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Free,
    Full,
    RecoverFirst,
    Idle,
}

fn room(state: &ChildState, now_ns: u64) -> Room {
    let is_orphaned = |active: &ActiveChild| active.lease.deadline_ns.is_some_and(|deadline| deadline <= now_ns);
    match state {
        state if state.active.iter().any(is_orphaned) && !planted(Mutant::DispatchBeforeRecovery) => Room::RecoverFirst,
        state if state.queued == 0 => Room::Idle,
        state if state.has_room() => Room::Free,
        _ => Room::Full,
    }
}

impl Protocol for LeaseChild {
    type Output = ChildDispatched;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ChildDispatched, StoreError> {
        let parent = Parent { universe: self.universe, world: self.parent, now_ns: self.now_ns };
        let meta = require_world(tx, self.universe, self.parent).await?;
        let mut state = parent.state(tx).await?;
        if let Some(mine) = state.active.iter().find(|active| active.lease.token == self.token) {
            let token = parent.token(tx, mine.child).await?;
            return Ok(self.leased(token));
        }
        match meta.state {
            WorldState::Live if meta.hold.is_none() && meta.paused != Some(true) => {}
            WorldState::Live => return Ok(ChildDispatched::Idle),
            WorldState::Archived => return Ok(ChildDispatched::ParentArchived),
            WorldState::Deleting | WorldState::Deleted => {
                tx.delete(child_work::key(self.universe, self.parent).as_bytes())?;
                return Ok(ChildDispatched::Idle);
            }
        }
        match room(&state, self.now_ns) {
            Room::Free => {}
            Room::Full => return Ok(ChildDispatched::Full),
            Room::RecoverFirst => return Ok(ChildDispatched::RecoverFirst),
            Room::Idle => return Ok(ChildDispatched::Idle),
        }
        let Some(mut token) = self.first(tx, &parent, &mut state).await? else {
            parent.write_state(tx, &state)?;
            if state.queued > 0 {
                queue_notify::bump(tx, self.universe, CHILD_SPAWN)?; // they stand behind many that were cancelled
            }
            return Ok(ChildDispatched::Idle);
        };
        if !self.kinds.contains(&token.kind) {
            return Ok(ChildDispatched::OtherKind { kind: token.kind, child: token.child });
        }
        self.draw(tx, &parent, &mut state, &mut token).await?;
        parent.write_token(tx, &token)?;
        parent.write_state(tx, &state)?;
        if state.has_room() {
            queue_notify::bump(tx, self.universe, CHILD_SPAWN)?; // the next one may be of a kind that another executor serves
        }
        Ok(self.leased(token))
    }
}

impl LeaseChild {
    fn leased(&self, token: DispatchToken) -> ChildDispatched {
        let claim = ChildClaim { universe: self.universe, parent: self.parent, child: token.child, token: self.token };
        ChildDispatched::Leased { claim, token: Box::new(token) }
    }

    /// The first child that waits. Those that were cancelled while they waited are passed for good.
    async fn first<T: Transaction>(
        &self,
        tx: &mut T,
        parent: &Parent,
        state: &mut ChildState,
    ) -> Result<Option<DispatchToken>, StoreError> {
        let Self { universe, parent: world, .. } = *self;
        let mut span = child_order::queue_prefix(universe, world).span();
        span.start = child_order::queue_key(universe, world, state.queue_from);
        let rows = tx.range(span.read(limits::CHILD_QUEUE_SCAN_MAX)).await?;
        for (key, value) in rows.items {
            let seq = child_order::parse_queue(universe, world, &key)?;
            let row: child_order::ChildRow = crate::keyspace::decode_value(Family::ChildQueue, &key, &value)?;
            let token = child_token::read(tx, universe, world, row.child).await?;
            match token {
                Some(token) if token.queue_seq != seq => {
                    let reason = format!("{} waits under the numbers {seq} and {}", row.child, token.queue_seq);
                    return Err(parent.violation(Code::UrmDispatchLeaseConflict, reason));
                }
                Some(token) if token.phase == Phase::Queued => {
                    state.queue_from = seq;
                    return parent.token(tx, token.child).await.map(Some);
                }
                _ => state.queue_from = seq + 1,
            }
        }
        Ok(None)
    }

    /// Draws the numbers of a dispatch, which nobody may have.
    async fn draw<T: Transaction>(
        &self,
        tx: &mut T,
        parent: &Parent,
        state: &mut ChildState,
        token: &mut DispatchToken,
    ) -> Result<(), StoreError> {
        let Self { universe, parent: world, .. } = *self;
        let dispatch_seq = state.next_dispatch_seq;
        let run = RunId::of_dispatch(world, dispatch_seq);
        let (row, run_row) = (dispatch_key(universe, world, dispatch_seq), run_key(universe, world, run));
        if child_order::read(tx, Family::ChildDispatch, &row).await?.is_some() {
            let reason = format!("the dispatch number {dispatch_seq} is taken");
            return Err(parent.violation(Code::UrmSchedulerReplayOrderInvalid, reason));
        }
        if child_order::read(tx, Family::ChildRun, &run_row).await?.is_some() {
            return Err(parent.violation(Code::UrmDispatchLeaseConflict, format!("{run} is taken")));
        }
        child_order::write(tx, &row, token.child)?;
        child_order::write(tx, &run_row, token.child)?;
        plan(state, token, (dispatch_seq, run), self.lease());
        Ok(())
    }

    fn lease(&self) -> ChildLease {
        let deadline_ns = Some(self.now_ns.saturating_add(self.ttl_ns));
        ChildLease { worker: self.worker, token: self.token, deadline_ns }
    }
}

/// The token is leased, and stands last among the active ones.
fn plan(state: &mut ChildState, token: &mut DispatchToken, (dispatch_seq, run): (u64, RunId), lease: ChildLease) {
    token.dispatch_seq = Some(dispatch_seq);
    token.run = Some(run);
    token.phase = Phase::Leased;
    state.next_dispatch_seq = dispatch_seq + 1;
    state.queue_from = token.queue_seq + 1;
    state.queued = state.queued.saturating_sub(1);
    state.active.push(ActiveChild { dispatch_seq, child: token.child, lease, phase: Phase::Leased, cancel: false });
}

#[cfg(test)]
mod tests {
    use super::super::transition::tests::token;
    use super::*;

    fn lease(deadline_ns: Option<u64>) -> ChildLease {
        ChildLease { worker: WorkerId::new(1).unwrap(), token: [1; 16], deadline_ns }
    }

    #[test]
    fn a_lease_that_ran_out_comes_before_everything_and_one_without_an_end_never_runs_out() {
        let mut state = ChildState { queued: 1, ..ChildState::default() };
        assert_eq!(room(&state, 10), Room::Free);
        let mut waiting = token(Phase::Queued);
        let run = RunId::of_dispatch(waiting.parent, 1);
        plan(&mut state, &mut waiting, (1, run), lease(Some(10)));
        state.queued = 1;
        assert_eq!(room(&state, 9), Room::Free);
        assert_eq!(room(&state, 10), Room::RecoverFirst);
        state.active[0].lease.deadline_ns = None;
        assert_eq!(room(&state, u64::MAX), Room::Free);
    }

    #[test]
    fn no_more_than_the_bound_run_at_a_time_and_numbers_rise() {
        let mut state = ChildState { queued: 3, ..ChildState::default() };
        for seq in 1..=2 {
            let mut waiting = token(Phase::Queued);
            waiting.queue_seq = seq;
            let run = RunId::of_dispatch(waiting.parent, seq);
            plan(&mut state, &mut waiting, (seq, run), lease(None));
            assert_eq!((waiting.phase, state.next_dispatch_seq, state.queue_from), (Phase::Leased, seq + 1, seq + 1));
        }
        assert_eq!((room(&state, 0), state.queued), (Room::Full, 1));
        assert_eq!(room(&ChildState { active_max: 3, ..state }, 0), Room::Free);
    }
}
