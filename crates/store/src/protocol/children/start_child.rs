//! Start a child: from here on its work may have begun.
//!
//! Guarantees: the phase `started`, the event `WORKER_START` and the parent's notice are on record before the executor begins the work, and
//! only while the executor holds the lease. So a child is started at most once, and an executor that was replaced starts nothing.
//! Unknown commit: run again; a child that is started under this very lease was started by an earlier run.

use super::{
    ChildClaim, ChildError,
    transition::{Detail, Parent, append},
};
use crate::{OnUnknown, Protocol, StoreError};
use mundi_engine::Transaction;
use mundi_model::{
    child::{DispatchToken, EventKind, Phase},
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone, Copy)]
pub struct StartChild {
    pub claim: ChildClaim,
    pub now_ns: u64,
}

impl Protocol for StartChild {
    type Output = DispatchToken;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<DispatchToken, StoreError> {
        start(tx, &self.claim, self.now_ns, Until::Deadline).await
    }
}

/// How long the lease of a child that starts is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until its deadline, which its executor extends.
    Deadline,
    /// The child goes on without its executor: a world.
    End,
}

pub(super) async fn start<T: Transaction>(
    tx: &mut T,
    claim: &ChildClaim,
    now_ns: u64,
    until: Until,
) -> Result<DispatchToken, StoreError> {
    let parent = Parent::of(claim, now_ns);
    let (mut state, _, mut token) = parent.held(tx, claim).await?;
    match token.phase {
        Phase::Leased => {}
        Phase::Started => return Ok(token),
        Phase::Queued | Phase::Terminal => return Err(ChildError::ClaimLost(claim.child).into()),
    }
    let event = append(&mut token, EventKind::Start, Phase::Started, &Detail::default(), now_ns);
    token.started_at_ns = Some(now_ns);
    for active in state.active.iter_mut().filter(|active| active.child == token.child) {
        active.phase = Phase::Started;
        if until == Until::End {
            active.lease.deadline_ns = None;
        }
    }
    if !planted(Mutant::StartUnrecorded) {
        parent.write_event(tx, token.child, &event)?;
    }
    parent.write_token(tx, &token)?;
    parent.write_state(tx, &state)?;
    if !token.withdrawn {
        parent.tell_start(tx, &token).await?;
    }
    Ok(token)
}
