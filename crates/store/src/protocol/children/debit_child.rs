//! Debit: what a child used is added to its parent's running totals.
//!
//! Guarantees: check and addition are one transaction per parent and lane, so of two debits that do not both fit the first one that commits is
//! accepted. A debit that would pass a limit, of the parent or of the child itself, changes no total and ends the child with
//! `URM_CHILD_BUDGET_EXCEEDED`. An amount that equals what is left is accepted.
//! Unknown commit: run again; a report names all that the child used so far, so the second run debits nothing.

use super::{
    ChildClaim, ChildError,
    transition::{End, Parent, leave},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::child_budget::{self, ChildBudget},
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, Value,
    child::{DispatchToken, Lane, Phase, Spend},
    mutants::{Mutant, planted},
};

/// Reports all that a child has used so far. Only what is new is debited, so a report that is sent twice counts once.
#[derive(Debug, Clone)]
pub struct DebitChild {
    pub claim: ChildClaim,
    /// The spending of the child since it started, lane by lane.
    pub spent: Spend,
    /// The calls to the outside that it made, for its parent if this ends it.
    pub calls: Option<Value>,
    pub now_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Debited {
    Accepted,
    /// The child is terminal. Its executor stops it.
    Exceeded(Lane),
}

impl Protocol for DebitChild {
    type Output = Debited;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Debited, StoreError> {
        let parent = Parent::of(&self.claim, self.now_ns);
        let (mut state, _, mut token) = match parent.held(tx, &self.claim).await {
            // An earlier run of this very report may have ended the child.
            Err(StoreError::Child(ChildError::ClaimLost(_))) => return self.is_ended(tx, &parent).await,
            held => held?,
        };
        if token.phase != Phase::Started {
            return Err(ChildError::ClaimLost(self.claim.child).into());
        }
        let before = token.spent;
        match debit(tx, &parent, &mut token, self.spent).await? {
            None if token.spent == before => Ok(Debited::Accepted),
            None => parent.write_token(tx, &token).map(|()| Debited::Accepted),
            Some(lane) => {
                leave(&mut state, token.child);
                let end = End { calls: self.calls.clone(), ..exceeded(lane, &token) };
                parent.end(tx, &mut state, token, &end).await?;
                Ok(Debited::Exceeded(lane))
            }
        }
    }
}

impl DebitChild {
    async fn is_ended<T: Transaction>(&self, tx: &mut T, parent: &Parent) -> Result<Debited, StoreError> {
        let lost = || ChildError::ClaimLost(self.claim.child).into();
        let token = parent.token(tx, self.claim.child).await.map_err(|_| lost())?;
        let is_exceeded =
            token.end.as_ref().and_then(|end| end.code.as_deref()) == Some(Code::UrmChildBudgetExceeded.as_str());
        let lane = Lane::ALL.into_iter().find(|lane| self.spent.get(*lane) > token.spent.get(*lane));
        lane.filter(|_| is_exceeded).map(Debited::Exceeded).ok_or_else(lost)
    }
}

/// The end of a child for which a lane has no room. After a cancel request it is of that request's lineage.
pub(super) fn exceeded(lane: Lane, token: &DispatchToken) -> End {
    End::failed(Code::UrmChildBudgetExceeded, format!("budget_exceeded:{}", lane.as_str())).after_cancel_of(token)
}

/// Adds what is new of `spent` to the totals, all lanes or none. Says which lane has no room.
pub(super) async fn debit<T: Transaction>(
    tx: &mut T,
    parent: &Parent,
    token: &mut DispatchToken,
    spent: Spend,
) -> Result<Option<Lane>, StoreError> {
    let mut raised = Vec::new();
    for (lane, amount) in fresh(token, spent) {
        let budget = child_budget::read(tx, parent.universe, parent.world, lane).await?;
        match plan(token, budget, lane, amount) {
            Some(after) => raised.push((lane, amount, after)),
            None => return Ok(Some(lane)),
        }
    }
    for (lane, amount, after) in raised {
        token.spent = token.spent.plus(Spend::default().with(lane, amount));
        child_budget::write(tx, parent.universe, parent.world, lane, &after)?;
    }
    Ok(None)
}

/// The part that was not debited before.
fn fresh(token: &DispatchToken, spent: Spend) -> Vec<(Lane, u64)> {
    let new = |(lane, amount): (Lane, u64)| {
        let before = if planted(Mutant::ReportRepeated) { 0 } else { token.spent.get(lane).unwrap_or(0) };
        let fresh = amount.saturating_sub(before);
        (fresh > 0).then_some((lane, fresh))
    };
    spent.lanes().filter_map(new).collect()
}

/// The parent's total after a debit; `None` if it does not fit there or into the child's own budget.
fn plan(token: &DispatchToken, budget: ChildBudget, lane: Lane, amount: u64) -> Option<ChildBudget> {
    let own = ChildBudget { total: token.spent.get(lane).unwrap_or(0), limit: token.budget.get(lane) };
    let fits = own.accepts(amount) && (budget.accepts(amount) || planted(Mutant::BudgetUnchecked));
    fits.then(|| ChildBudget { total: budget.total.saturating_add(amount), ..budget })
}

#[cfg(test)]
mod tests {
    use super::super::transition::tests::token;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_new_is_debited() {
        let mut token = token(Phase::Started);
        token.spent = Spend::default().with(Lane::Tokens, 7);
        assert_eq!(fresh(&token, Spend::default().with(Lane::Tokens, 7)), []);
        assert_eq!(fresh(&token, Spend::default().with(Lane::Tokens, 9)), [(Lane::Tokens, 2)]);
        assert_eq!(fresh(&token, Spend::default().with(Lane::Tokens, 3)), []);
    }

    #[test]
    fn the_budget_of_the_child_bounds_it_too() {
        let mut token = token(Phase::Started);
        token.budget = Spend::default().with(Lane::Tokens, 5);
        let unbounded = ChildBudget::default();
        assert_eq!(plan(&token, unbounded, Lane::Tokens, 5).map(|after| after.total), Some(5));
        assert_eq!(plan(&token, unbounded, Lane::Tokens, 6), None);
        assert_eq!(plan(&token, unbounded, Lane::SolverCalls, 6).map(|after| after.total), Some(6));
    }

    proptest! {
        #[test]
        fn a_total_never_passes_its_limit(limit in 0..50u64, debits in proptest::collection::vec(0..20u64, 0..20)) {
            let (token, mut budget) = (token(Phase::Started), ChildBudget { total: 0, limit: Some(limit) });
            let mut accepted = 0;
            for debit in debits {
                match plan(&token, budget, Lane::Tokens, debit) {
                    Some(after) => {
                        accepted += debit;
                        budget = after;
                    }
                    None => prop_assert!(accepted + debit > limit),
                }
                prop_assert!(budget.total == accepted && accepted <= limit);
            }
        }
    }
}
