//! Cancel a child.
//!
//! Guarantees: a child that waits or is only leased is terminal with this transaction: `WORKER_CANCEL` is its last event, and no executor
//! starts it. A child that has started gets the event `WORKER_CANCEL` and stays active until its executor has stopped it; its terminal
//! event names the same `cancel_request_id` and comes after. A child of kind `world` has no executor: it ends at once, with both events, is debited for
//! its time, and its world gets a message; if the budget has no room for that time, its end says so and is still the end of this request.
//! A child that is terminal is left as it is, and no event is written. The first request counts; later ones learn its id.
//! Unknown commit: run again; a token that has this very request was changed by an earlier run, and says how the child ended, if it did.

use super::{
    ChildError, RequestName,
    debit_child::{debit, exceeded},
    transition::{Detail, End, Parent, append, leave},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{child_state::ChildState, child_token, queue_notify},
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, IntentHash, UniverseId, WorldId,
    child::{CHILD_SPAWN, ChildId, ChildOutcome, DispatchToken, EventKind, Phase, Spend},
    limits,
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone)]
pub struct CancelChild {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    pub cancel_request_id: String,
    /// The request of a client, if it is one: recognized when it comes again.
    pub request: Option<RequestName>,
    pub now_ns: u64,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequested {
    pub outcome: CancelOutcome,
    /// Of the request on record: the first one that found the child not terminal. None if there was none.
    pub cancel_request_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It ended with this request.
    Cancelled,
    /// It has started: its executor stops it.
    Requested,
    /// It was terminal before, or ended otherwise before the request was answered.
    AlreadyTerminal,
}

impl CancelOutcome {
    const ALL: [Self; 3] = [Self::Cancelled, Self::Requested, Self::AlreadyTerminal];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Requested => "requested",
            Self::AlreadyTerminal => "already_terminal",
        }
    }
}

impl CancelRequested {
    fn new(outcome: CancelOutcome, token: &DispatchToken) -> Self {
        Self { outcome, cancel_request_id: token.cancel_request_id.clone() }
    }

    /// As a request is remembered: the outcome, and the id behind a colon.
    fn answer(&self) -> String {
        let id = self.cancel_request_id.as_ref().map(|id| format!(":{id}"));
        format!("{}{}", self.outcome.as_str(), id.unwrap_or_default())
    }

    fn of_answer(answer: &str) -> Self {
        let (outcome, id) = answer.split_once(':').map_or((answer, None), |(outcome, id)| (outcome, Some(id)));
        let outcome = CancelOutcome::ALL.into_iter().find(|known| known.as_str() == outcome);
        Self { outcome: outcome.unwrap_or(CancelOutcome::AlreadyTerminal), cancel_request_id: id.map(str::to_owned) }
    }
}

impl Protocol for CancelChild {
    type Output = CancelRequested;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<CancelRequested, StoreError> {
        let parent = Parent { universe: self.universe, world: self.parent, now_ns: self.now_ns };
        let place = (self.universe, self.parent);
        if let Some(request) = &self.request
            && let Some(answer) = request.answered(tx, place, self.now_ns).await?
        {
            return Ok(CancelRequested::of_answer(&answer));
        }
        let token = parent.token(tx, self.child).await?;
        let id = &self.cancel_request_id;
        let done = cancel(tx, &parent, token, &id[..id.floor_char_boundary(limits::NAME_BYTES_MAX)]).await?;
        if let Some(request) = &self.request {
            request.remember(tx, place, &done.answer(), self.now_ns)?;
        }
        Ok(done)
    }
}

/// Cancels the child of an intent that its parent withdrew: nobody waits for its end. Says whether there is such a child.
pub(in crate::protocol) async fn withdraw<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    (intent, now_ns): (IntentHash, u64),
) -> Result<bool, StoreError> {
    let (parent, child) = (Parent { universe, world, now_ns }, ChildId::of_intent(&intent));
    if child_token::read(tx, universe, world, child).await?.is_none() {
        return Ok(false);
    }
    let mut token = match parent.token(tx, child).await {
        Err(StoreError::Child(ChildError::NotFound { .. })) => return Ok(false),
        token => token?,
    };
    token.withdrawn = true;
    cancel(tx, &parent, token, &format!("withdrawn:{}", intent.to_hex())).await.map(|_| true)
}

async fn cancel<T: Transaction>(
    tx: &mut T,
    parent: &Parent,
    mut token: DispatchToken,
    id: &str,
) -> Result<CancelRequested, StoreError> {
    let answer = CancelRequested::new;
    match (token.phase, &token.end) {
        (Phase::Terminal, end) => {
            let is_cancelled = end.as_ref().is_some_and(|end| end.outcome == ChildOutcome::Cancelled);
            return Ok(match is_cancelled && token.cancel_request_id.as_deref() == Some(id) {
                true => answer(CancelOutcome::Cancelled, &token),
                false => answer(CancelOutcome::AlreadyTerminal, &token),
            });
        }
        (Phase::Started, _) if token.cancel_request_id.is_some() => {
            parent.write_token(tx, &token)?;
            return Ok(answer(CancelOutcome::Requested, &token));
        }
        _ => token.cancel_request_id = Some(id.to_owned()),
    }
    let mut state = parent.state(tx).await?;
    let is_started = token.phase == Phase::Started;
    let has_executor = state.active(token.child).is_some_and(|active| active.lease.deadline_ns.is_some());
    if !is_started {
        leave_queue(&mut state, &token);
        let token = parent.end(tx, &mut state, token, &ended_unstarted()).await?;
        return Ok(answer(CancelOutcome::Cancelled, &token));
    }
    let detail = Detail { is_of_cancel: true, ..Detail::default() };
    let event = append(&mut token, EventKind::Cancel, Phase::Started, &detail, parent.now_ns);
    parent.write_event(tx, token.child, &event)?;
    if !has_executor {
        let spent = Spend::default().lasting(token.started_at_ns.unwrap_or(parent.now_ns), parent.now_ns);
        let end = match debit(tx, parent, &mut token, spent).await? {
            None => End::cancelled(),
            Some(lane) => exceeded(lane, &token),
        };
        if !planted(Mutant::ChildWorldUntold) {
            parent.tell_cancel(tx, &token).await?;
        }
        leave(&mut state, token.child);
        let token = parent.end(tx, &mut state, token, &end).await?;
        return Ok(answer(CancelOutcome::Cancelled, &token));
    }
    for active in state.active.iter_mut().filter(|active| active.child == token.child) {
        active.cancel = true;
    }
    parent.write_token(tx, &token)?;
    parent.write_state(tx, &state)?;
    queue_notify::bump(tx, parent.universe, CHILD_SPAWN)?; // its executor watches it
    Ok(answer(CancelOutcome::Requested, &token))
}

/// `WORKER_CANCEL` itself is the terminal event.
fn ended_unstarted() -> End {
    let detail = Detail { code: Some(Code::UrmChildCancelled), reason: Some("cancelled".into()), is_of_cancel: true };
    End {
        kind: EventKind::Cancel,
        outcome: ChildOutcome::Cancelled,
        detail,
        result: None,
        calls: None,
        finished_by: None,
    }
}

/// A child that never started leaves the queue, or the place of the executor that leased it.
pub(super) fn leave_queue(state: &mut ChildState, token: &DispatchToken) {
    match token.phase {
        Phase::Queued => state.queued = state.queued.saturating_sub(1),
        _ => leave(state, token.child),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_learns_what_was_answered() {
        for outcome in CancelOutcome::ALL {
            for id in [None, Some("stop"), Some("cancel:c_1:2")] {
                let done = CancelRequested { outcome, cancel_request_id: id.map(str::to_owned) };
                assert_eq!(CancelRequested::of_answer(&done.answer()), done);
            }
        }
    }
}
