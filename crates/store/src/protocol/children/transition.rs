//! A child moves to another phase: its token, its event and the parent's inbox item, together.
//!
//! The decision is pure: [`append`] adds an event to a token, and never goes back in phase. [`Parent`] reads what a decision needs, checks that
//! what is stored belongs together, and writes what was decided.

use super::{ChildClaim, ChildError};
use crate::protocol::{Enqueue, NewItem, WorldError};
use crate::{
    StoreError,
    keyspace::{
        Family, child_event,
        child_order::{self, dispatch_key, ended_key, queue_key, run_key},
        child_state::{self, ActiveChild, ChildState},
        child_token, child_work,
        inbox_dedupe::DedupeId,
        queue_notify,
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, UniverseId, Value, WorldId, cbor,
    child::{
        CHILD_CANCELLED_INBOX, CHILD_INBOX, CHILD_SPAWN, ChildEnd, ChildEvent, ChildId, ChildOutcome, DispatchToken,
        EventKind, Phase, Spend,
    },
    limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Origin, Payload, Receipt, ReceiptStatus, Sender},
};
use std::collections::BTreeMap;

/// The parent of a transaction's children, and the transaction's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent {
    pub(super) universe: UniverseId,
    pub(super) world: WorldId,
    pub(super) now_ns: u64,
}

/// The detail of an event beside its kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Detail {
    pub(super) code: Option<Code>,
    pub(super) reason: Option<String>,
    /// The event is a part of the lineage of the token's cancel request.
    pub(super) is_of_cancel: bool,
}

/// Adds an event to the child's stream and moves the token to the event's phase.
pub(super) fn append(
    token: &mut DispatchToken,
    kind: EventKind,
    phase: Phase,
    detail: &Detail,
    now_ns: u64,
) -> ChildEvent {
    debug_assert!(
        phase >= token.phase && token.phase != Phase::Terminal,
        "{} after {}",
        phase.as_str(),
        token.phase.as_str()
    );
    let event = ChildEvent {
        kind,
        seq: token.events,
        at_ns: now_ns,
        phase,
        parent_seq: token.parent_seq,
        dispatch_seq: token.dispatch_seq,
        run: token.run,
        code: detail.code.map(|code| code.to_string()),
        reason: detail.reason.as_deref().map(bounded),
        cancel_request_id: token.cancel_request_id.clone().filter(|_| detail.is_of_cancel),
    };
    token.events += 1;
    let is_lowered = planted(Mutant::PhaseLowered) && kind == EventKind::Cancel && phase == Phase::Started;
    token.phase = if is_lowered { Phase::Leased } else { phase };
    event
}

fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned()
}

/// How a child ends.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) kind: EventKind,
    pub(super) outcome: ChildOutcome,
    pub(super) detail: Detail,
    /// The result of a child that passes.
    pub(super) result: Option<Value>,
    /// The calls to the outside of one that does not.
    pub(super) calls: Option<Value>,
    /// The token of the lease whose executor says so.
    pub(super) finished_by: Option<[u8; 16]>,
}

impl End {
    pub(super) fn failed(code: Code, reason: impl Into<String>) -> Self {
        let detail = Detail { code: Some(code), reason: Some(reason.into()), is_of_cancel: false };
        Self {
            kind: EventKind::Fail,
            outcome: ChildOutcome::Failed,
            detail,
            result: None,
            calls: None,
            finished_by: None,
        }
    }

    /// Of a child that had started when it was cancelled.
    pub(super) fn cancelled() -> Self {
        let mut end = Self::failed(Code::UrmChildCancelled, "cancelled");
        (end.outcome, end.detail.is_of_cancel) = (ChildOutcome::Cancelled, true);
        end
    }

    /// The same end, in the lineage of the token's cancel request if there is one: a child that was to be cancelled and did not pass is
    /// cancelled, whatever code says how it ended.
    pub(super) fn after_cancel_of(mut self, token: &DispatchToken) -> Self {
        if token.cancel_request_id.is_some() {
            (self.outcome, self.detail.is_of_cancel) = (ChildOutcome::Cancelled, true);
        }
        self
    }

    /// Ends the token. The receipt is for the parent.
    pub(super) fn apply(&self, token: &mut DispatchToken, now_ns: u64) -> ChildEvent {
        let event = append(token, self.kind, Phase::Terminal, &self.detail, now_ns);
        token.end = Some(ChildEnd {
            outcome: self.outcome,
            at_ns: now_ns,
            code: event.code.clone(),
            reason: event.reason.clone(),
            finished_by: self.finished_by,
        });
        event
    }

    fn receipt(&self, token: &DispatchToken) -> Receipt {
        let status = match self.outcome {
            ChildOutcome::Passed => ReceiptStatus::Ok,
            ChildOutcome::Failed | ChildOutcome::Cancelled => ReceiptStatus::Error,
        };
        let mut fields = anchors(token);
        let mut set = |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
        let end = token.end.as_ref();
        set("outcome", Some(Value::Text(self.outcome.as_str().to_owned())));
        set("code", end.and_then(|end| end.code.clone()).map(Value::Text));
        set("reason", end.and_then(|end| end.reason.clone()).map(Value::Text));
        set("cancel_request_id", token.cancel_request_id.clone().filter(|_| self.detail.is_of_cancel).map(Value::Text));
        set("result", self.result.clone());
        set("calls", self.calls.clone());
        set("spent", Some(spend_value(token.spent)));
        Receipt {
            intent: token.intent,
            kind: CHILD_SPAWN.to_owned(),
            status,
            payload: Payload::Inline(cbor::encode(&Value::Map(fields))),
            adapter: "children".to_owned(),
            signature: None,
            operator: None,
        }
    }
}

/// The names of a child and its dispatch, for its parent.
fn anchors(token: &DispatchToken) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::from([("child_id".to_owned(), Value::Text(token.child.to_string()))]);
    fields.extend(token.dispatch_seq.map(|seq| ("dispatch_seq".to_owned(), Value::Integer(seq.into()))));
    fields.extend(token.run.map(|run| ("lease_id".to_owned(), Value::Text(run.to_string()))));
    fields.extend(token.world().map(|world| ("world".to_owned(), Value::Text(world.to_string()))));
    fields
}

fn spend_value(spent: Spend) -> Value {
    Value::Map(spent.lanes().map(|(lane, amount)| (lane.as_str().to_owned(), Value::Integer(amount.into()))).collect())
}

impl Parent {
    pub(super) fn of(claim: &ChildClaim, now_ns: u64) -> Self {
        Self { universe: claim.universe, world: claim.parent, now_ns }
    }

    pub(super) fn violation(&self, code: Code, reason: impl Into<String>) -> StoreError {
        ChildError::Violation { parent: self.world, code, reason: reason.into() }.into()
    }

    pub(super) async fn state<T: Transaction>(&self, tx: &mut T) -> Result<ChildState, StoreError> {
        Ok(child_state::read(tx, self.universe, self.world).await?.unwrap_or_default())
    }

    /// The token, if its phase and its last event belong together.
    pub(super) async fn token<T: Transaction>(&self, tx: &mut T, child: ChildId) -> Result<DispatchToken, StoreError> {
        let token = child_token::read(tx, self.universe, self.world, child).await?;
        let token = token.ok_or(ChildError::NotFound { parent: self.world, child })?;
        let last = match token.events {
            0 => None,
            count => child_event::read(tx, self.universe, self.world, (child, count - 1)).await?,
        };
        let next = child_event::read(tx, self.universe, self.world, (child, token.events)).await?;
        if next.is_some() || !belong_together(&token, last.as_ref()) {
            let reason = format!("{child} is {}, and its last event does not say so", token.phase.as_str());
            return Err(self.violation(Code::UrmSchedulerPhaseEventAtomicityViolation, reason));
        }
        Ok(token)
    }

    /// The child of a claim that is held, with its state and token.
    pub(super) async fn held<T: Transaction>(
        &self,
        tx: &mut T,
        claim: &ChildClaim,
    ) -> Result<(ChildState, ActiveChild, DispatchToken), StoreError> {
        let state = self.state(tx).await?;
        let lost = ChildError::ClaimLost(claim.child);
        let active = state
            .active(claim.child)
            .filter(|active| active.lease.token == claim.token || planted(Mutant::ChildLeaseUnchecked));
        let active = active.ok_or(lost)?.clone();
        let token = self.token(tx, claim.child).await?;
        if token.phase != active.phase {
            let reason =
                format!("{} is {}, and active as {}", token.child, token.phase.as_str(), active.phase.as_str());
            return Err(self.violation(Code::UrmSchedulerPhaseEventAtomicityViolation, reason));
        }
        Ok((state, active, token))
    }

    pub(super) fn write_event<T: Transaction>(
        &self,
        tx: &mut T,
        child: ChildId,
        event: &ChildEvent,
    ) -> Result<(), StoreError> {
        child_event::write(tx, self.universe, self.world, child, event)
    }

    pub(super) fn write_token<T: Transaction>(&self, tx: &mut T, token: &DispatchToken) -> Result<(), StoreError> {
        child_token::write(tx, self.universe, token)
    }

    pub(super) fn write_state<T: Transaction>(&self, tx: &mut T, state: &ChildState) -> Result<(), StoreError> {
        child_state::write(tx, self.universe, self.world, state)?;
        child_work::write(tx, self.universe, self.world, state)
    }

    /// Ends a child: event, token, the parent's receipt, and the place of the child among those that ended. `state` has no entry of it any more.
    pub(super) async fn end<T: Transaction>(
        &self,
        tx: &mut T,
        state: &mut ChildState,
        mut token: DispatchToken,
        end: &End,
    ) -> Result<DispatchToken, StoreError> {
        let event = end.apply(&mut token, self.now_ns);
        self.write_event(tx, token.child, &event)?;
        self.write_token(tx, &token)?;
        self.retire(tx, state, token.child).await?;
        self.write_state(tx, state)?;
        queue_notify::bump(tx, self.universe, CHILD_SPAWN)?; // there is room for another one
        if !token.withdrawn {
            let item = InboxItem { input: Input::Receipt(end.receipt(&token)), origin: self.origin(&token) };
            self.tell(tx, NewItem { item, dedupe: Some(DedupeId::receipt(token.intent)) }).await?;
        }
        Ok(token)
    }

    /// Tells the parent that a child started.
    pub(super) async fn tell_start<T: Transaction>(&self, tx: &mut T, token: &DispatchToken) -> Result<(), StoreError> {
        let headers = BTreeMap::from([
            ("child_id".to_owned(), token.child.to_string()),
            ("intent".to_owned(), token.intent.to_string()),
            ("label".to_owned(), token.label.clone()),
        ]);
        let payload = Payload::Inline(cbor::encode(&Value::Map(anchors(token))));
        let input = Input::Message { inbox: CHILD_INBOX.to_owned(), payload, headers };
        self.tell(tx, NewItem { item: InboxItem { input, origin: self.origin(token) }, dedupe: None }).await
    }

    /// Tells a world that is a child that it was cancelled. One that takes nothing in is told nothing.
    pub(super) async fn tell_cancel<T: Transaction>(
        &self,
        tx: &mut T,
        token: &DispatchToken,
    ) -> Result<(), StoreError> {
        let Some(world) = token.world() else { return Ok(()) };
        let mut fields = anchors(token);
        fields.extend(token.cancel_request_id.clone().map(|id| ("cancel_request_id".to_owned(), Value::Text(id))));
        let (inbox, payload) = (CHILD_CANCELLED_INBOX.to_owned(), Payload::Inline(cbor::encode(&Value::Map(fields))));
        let sender = Some(Sender { world: self.world, height: token.parent_seq });
        let input = Input::Message { inbox, payload, headers: BTreeMap::new() };
        let item = InboxItem { input, origin: Origin { sender, call: None, ..self.origin(token) } };
        let new = [NewItem { item, dedupe: None }];
        let enqueue = Enqueue::new(self.universe, world, &new, self.now_ns, limits::DEDUPE_WINDOW_NS)?.beyond_bounds();
        match enqueue.run_within(tx).await {
            Ok(_) | Err(StoreError::World(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn origin(&self, token: &DispatchToken) -> Origin {
        let (correlation_id, trace) = (token.correlation_id.clone(), token.trace.clone());
        Origin { correlation_id, trace, call: token.call, ..Origin::new(self.now_ns) }
    }

    /// A parent that is gone is told nothing.
    async fn tell<T: Transaction>(&self, tx: &mut T, new: NewItem) -> Result<(), StoreError> {
        let window_ns = limits::DEDUPE_WINDOW_NS;
        let enqueue = Enqueue::new(self.universe, self.world, &[new], self.now_ns, window_ns)?.beyond_bounds();
        match enqueue.run_within(tx).await {
            Ok(_) | Err(StoreError::World(WorldError::Deleted(_) | WorldError::NotFound { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that a child ended, and removes the one that ended first if too many are kept.
    async fn retire<T: Transaction>(
        &self,
        tx: &mut T,
        state: &mut ChildState,
        child: ChildId,
    ) -> Result<(), StoreError> {
        let Self { universe, world, .. } = *self;
        child_order::write(tx, &ended_key(universe, world, state.next_ended), child)?;
        state.next_ended += 1;
        if state.next_ended - state.ended_from <= limits::CHILDREN_ENDED_MAX {
            return Ok(());
        }
        let key = ended_key(universe, world, state.ended_from);
        state.ended_from += 1;
        let Some(old) = child_order::read(tx, Family::ChildEnded, &key).await? else { return Ok(()) };
        tx.delete(key.as_bytes())?;
        if let Some(token) = child_token::read(tx, universe, world, old).await? {
            let rows = [
                Some(queue_key(universe, world, token.queue_seq)),
                token.dispatch_seq.map(|seq| dispatch_key(universe, world, seq)),
                token.run.map(|run| run_key(universe, world, run)),
                Some(child_token::key(universe, world, old)),
            ];
            for row in rows.into_iter().flatten() {
                tx.delete(row.as_bytes())?;
            }
        }
        let events = child_event::prefix(universe, world, old).span();
        Ok(tx.delete_range(events.start.as_bytes(), events.end.as_bytes())?)
    }
}

/// Whether a phase is the one that the last event left.
pub(super) fn belong_together(token: &DispatchToken, last: Option<&ChildEvent>) -> bool {
    match (token.phase, last) {
        (Phase::Queued | Phase::Leased, None) => token.events == 0,
        (Phase::Started | Phase::Terminal, Some(event)) => event.phase == token.phase,
        _ => false,
    }
}

/// Takes a child out of the active ones.
pub(super) fn leave(state: &mut ChildState, child: ChildId) {
    state.active.retain(|active| active.child != child);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use mundi_model::{Height, IntentHash, child::RunId};
    use proptest::prelude::*;

    pub(in super::super) fn token(phase: Phase) -> DispatchToken {
        let intent = IntentHash::from_bytes([1; 32]);
        let parent = WorldId::from_bytes([3; 16]);
        let dispatched = phase > Phase::Queued;
        DispatchToken {
            child: ChildId::of_intent(&intent),
            parent,
            parent_seq: Height::new(4),
            intent,
            label: "it".into(),
            kind: "external".into(),
            params: Payload::Inline(Vec::new()),
            budget: Spend::default(),
            queue_seq: 1,
            dispatch_seq: dispatched.then_some(1),
            run: dispatched.then(|| RunId::of_dispatch(parent, 1)),
            phase,
            events: u64::from(phase >= Phase::Started),
            cancel_request_id: None,
            withdrawn: false,
            spent: Spend::default(),
            spawned_at_ns: 1,
            started_at_ns: None,
            end: None,
            manifest: None,
            trace: None,
            correlation_id: None,
            call: None,
        }
    }

    #[test]
    fn an_event_has_the_phase_that_it_leads_to_and_the_anchors_of_its_token() {
        let mut leased = token(Phase::Leased);
        let event = append(&mut leased, EventKind::Start, Phase::Started, &Detail::default(), 9);
        assert_eq!((event.seq, event.phase, event.dispatch_seq, event.run), (0, Phase::Started, Some(1), leased.run));
        assert_eq!((leased.phase, leased.events), (Phase::Started, 1));
        assert!(belong_together(&leased, Some(&event)) && !belong_together(&leased, None));
    }

    #[test]
    fn only_events_of_a_cancel_name_its_request() {
        let mut started = token(Phase::Started);
        started.cancel_request_id = Some("why".into());
        let failed = End::failed(Code::UrmChildFailed, "x").apply(&mut started.clone(), 1);
        assert_eq!(failed.cancel_request_id, None);
        let cancelled = End::cancelled().apply(&mut started, 1);
        assert_eq!(cancelled.cancel_request_id.as_deref(), Some("why"));
        assert_eq!(started.end.unwrap().outcome, ChildOutcome::Cancelled);
    }

    proptest! {
        #[test]
        fn a_phase_without_its_event_is_found(phase in 0..4u8, event in proptest::option::of(0..4u8), events in 0..3u64) {
            let phases = [Phase::Queued, Phase::Leased, Phase::Started, Phase::Terminal];
            let mut token = token(phases[usize::from(phase)]);
            token.events = events;
            let event = event.map(|at| {
                let mut other = super::tests::token(Phase::Leased);
                append(&mut other, EventKind::Start, phases[usize::from(at)].max(Phase::Leased), &Detail::default(), 1)
            });
            let agree = belong_together(&token, event.as_ref());
            let expected = match (&event, token.phase.is_start_observed()) {
                (None, false) => events == 0,
                (Some(event), true) => event.phase == token.phase,
                _ => false,
            };
            prop_assert_eq!(agree, expected);
        }
    }
}
