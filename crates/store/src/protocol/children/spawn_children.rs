//! Spawn children: a part of the turn's transaction.
//!
//! Guarantees: a child of an intent is queued exactly if the turn that asked for it is committed, and once. It gets the parent's next
//! `queue_seq`, which no other child has or had. A number that is taken already is a violation: nothing is written, and the turn fails.
//! Unknown commit: that of the turn, which recognizes itself by its head.

use super::{ChildError, transition::Parent};
use crate::{
    StoreError,
    keyspace::{
        Family,
        child_order::{self, queue_key},
        child_state::{self, ChildState},
        child_token,
        effect_pending::EffectItem,
        queue_notify,
    },
};
use mundi_engine::{Read, Transaction};
use mundi_model::{
    Code, Coded, UniverseId, WorldId,
    child::{CHILD_SPAWN, ChildId, ChildSpec, DispatchToken, Phase, Spend},
    limits,
    record::Payload,
};

/// The reads of the first spawn of a turn.
pub(in crate::protocol) fn reads(universe: UniverseId, parent: WorldId) -> Read {
    child_state::key(universe, parent).planned()
}

/// Queues the children of a turn, in the order of their intents.
pub(in crate::protocol) async fn spawn_children<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    items: &[&EffectItem],
    now_ns: u64,
) -> Result<(), StoreError> {
    let Some(first) = items.first() else { return Ok(()) };
    let parent = Parent { universe, world: first.world, now_ns };
    let mut state = parent.state(tx).await?;
    for item in items {
        let child = ChildId::of_intent(&item.intent);
        if child_token::read(tx, universe, parent.world, child).await?.is_some() {
            continue; // what was inherited is published once
        }
        let row = queue_key(universe, parent.world, state.next_queue_seq);
        if child_order::read(tx, Family::ChildQueue, &row).await?.is_some() {
            let reason = format!("the queue number {} is taken", state.next_queue_seq);
            return Err(parent.violation(Code::UrmDispatchLeaseConflict, reason));
        }
        let token = plan(&mut state, item, now_ns)?;
        child_order::write(tx, &row, child)?;
        child_token::write(tx, universe, &token)?;
    }
    parent.write_state(tx, &state)?;
    queue_notify::bump(tx, universe, CHILD_SPAWN)
}

/// Draws a number for a child.
fn plan(state: &mut ChildState, item: &EffectItem, now_ns: u64) -> Result<DispatchToken, StoreError> {
    let child = ChildId::of_intent(&item.intent);
    let spec = match &item.params {
        Payload::Inline(bytes) => ChildSpec::read(bytes),
        Payload::Blob(..) => Err(mundi_model::child::SpecInvalid::Shape("they are too large".to_owned())),
    };
    let invalid = |error: mundi_model::child::SpecInvalid| ChildError::SpecInvalid {
        child,
        code: error.code(),
        reason: error.to_string(),
    };
    let ChildSpec { kind, budget, .. } = spec.map_err(invalid)?;
    let queue_seq = state.next_queue_seq;
    state.next_queue_seq += 1;
    state.queued += 1;
    let wanted = item.terms.children_active_max.unwrap_or(limits::CHILDREN_ACTIVE_DEFAULT);
    state.active_max = wanted.min(limits::CHILDREN_ACTIVE_MAX);
    Ok(DispatchToken {
        child,
        parent: item.world,
        parent_seq: item.height,
        intent: item.intent,
        label: item.label.clone(),
        kind,
        params: item.params.clone(),
        budget,
        queue_seq,
        dispatch_seq: None,
        run: None,
        phase: Phase::Queued,
        events: 0,
        cancel_request_id: None,
        withdrawn: false,
        spent: Spend::default(),
        spawned_at_ns: now_ns,
        started_at_ns: None,
        end: None,
        manifest: item.policy_context,
        trace: item.trace.clone(),
        correlation_id: item.correlation_id.clone(),
        call: item.call,
    })
}
