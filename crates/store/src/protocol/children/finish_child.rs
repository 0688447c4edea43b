//! Finish a child: it passed, failed, or was stopped because of a cancel request.
//!
//! Guarantees: phase, event, totals and the parent's receipt are one transaction, which commits only while the executor holds the lease and the
//! child is started; a leased child may only fail, because its executor cannot run it. So a child ends once, and an executor that was replaced ends nothing. What is left to debit is debited with it; if it
//! does not fit, the child ends with `URM_CHILD_BUDGET_EXCEEDED` whatever it returned, in the lineage of a cancel request if there is one. A child that was not started debits nothing.
//! Unknown commit: run again; a claim that is gone while the token says that this very lease ended it means that the first run was applied.

use super::{
    ChildClaim, ChildError,
    debit_child::{debit, exceeded},
    transition::{Detail, End, Parent, leave},
};
use crate::{OnUnknown, Protocol, StoreError};
use mundi_engine::Transaction;
use mundi_model::{
    Code, Value,
    child::{ChildOutcome, DispatchToken, EventKind, Phase, Spend},
    mutants::{Mutant, planted},
};

/// An executor's report about a child that is over.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildFinish {
    Passed(Value),
    Failed {
        code: Code,
        reason: String,
    },
    /// It was stopped because its cancellation was asked for.
    Cancelled,
}

#[derive(Debug, Clone)]
pub struct FinishChild {
    pub claim: ChildClaim,
    pub finish: ChildFinish,
    /// All that it used since it started.
    pub spent: Spend,
    /// The calls to the outside that it made, for the parent of a child that does not pass.
    pub calls: Option<Value>,
    pub now_ns: u64,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildFinished {
    pub kind: String,
    pub outcome: ChildOutcome,
    pub code: Option<String>,
    /// As the change said it that ended the child: an earlier one, if it is asked again.
    pub at_ns: u64,
}

impl Protocol for FinishChild {
    type Output = ChildFinished;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ChildFinished, StoreError> {
        let parent = Parent::of(&self.claim, self.now_ns);
        let (mut state, _, mut token) = match parent.held(tx, &self.claim).await {
            Err(error @ StoreError::Child(ChildError::ClaimLost(_))) => return self.applied(tx, &parent, error).await,
            held => held?,
        };
        let is_refused = token.phase == Phase::Leased && matches!(self.finish, ChildFinish::Failed { .. });
        if token.phase != Phase::Started && !is_refused {
            return Err(ChildError::ClaimLost(self.claim.child).into());
        }
        // A child that was not started can have used nothing, whatever its executor says.
        let spent = if token.phase == Phase::Started { self.spent } else { Spend::default() };
        let end = match debit(tx, &parent, &mut token, spent).await? {
            None => plan(&self.finish, &token),
            Some(lane) => exceeded(lane, &token),
        };
        let calls = self.calls.clone().filter(|_| end.kind != EventKind::Pass);
        let end = End { finished_by: Some(self.claim.token), calls, ..end };
        leave(&mut state, token.child);
        let token = parent.end(tx, &mut state, token, &end).await?;
        Ok(finished(&token))
    }
}

impl FinishChild {
    /// The end that an earlier run of this very finish made, if that is why the lease is gone.
    async fn applied<T: Transaction>(
        &self,
        tx: &mut T,
        parent: &Parent,
        lost: StoreError,
    ) -> Result<ChildFinished, StoreError> {
        let Ok(token) = parent.token(tx, self.claim.child).await else { return Err(lost) };
        match &token.end {
            Some(end) if end.finished_by == Some(self.claim.token) => Ok(finished(&token)),
            _ => Err(lost),
        }
    }
}

pub(super) fn finished(token: &DispatchToken) -> ChildFinished {
    let end = token.end.as_ref();
    ChildFinished {
        kind: token.kind.clone(),
        outcome: end.map_or(ChildOutcome::Failed, |end| end.outcome),
        code: end.and_then(|end| end.code.clone()),
        at_ns: end.map_or(0, |end| end.at_ns),
    }
}

/// A child that was cancelled and ends in another way than by passing ended because of the cancel.
pub(super) fn plan(finish: &ChildFinish, token: &DispatchToken) -> End {
    match finish {
        ChildFinish::Passed(result) => End {
            kind: EventKind::Pass,
            outcome: ChildOutcome::Passed,
            detail: Detail::default(),
            result: Some(result.clone()).filter(|result| *result != Value::Null),
            calls: None,
            finished_by: None,
        },
        _ if token.cancel_request_id.is_some() && !planted(Mutant::CancelLineageLost) => End::cancelled(),
        ChildFinish::Failed { code, reason } => End::failed(*code, reason.clone()),
        ChildFinish::Cancelled => End::failed(Code::UrmChildFailed, "stopped"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::transition::tests::token;
    use super::*;

    #[test]
    fn a_failure_after_a_cancel_request_is_its_end_and_a_pass_is_a_pass() {
        let mut token = token(Phase::Started);
        let failed = ChildFinish::Failed { code: Code::UrmChildFailed, reason: "exit 1".into() };
        assert_eq!(plan(&failed, &token).outcome, ChildOutcome::Failed);
        token.cancel_request_id = Some("r".into());
        assert_eq!(plan(&failed, &token).outcome, ChildOutcome::Cancelled);
        assert_eq!(plan(&ChildFinish::Cancelled, &token).outcome, ChildOutcome::Cancelled);
        assert_eq!(plan(&ChildFinish::Passed(Value::Null), &token).outcome, ChildOutcome::Passed);
    }
}
