//! Receipts: every intent that a journal announces is published in the same transaction, and gets exactly one terminal
//! receipt; an `ok` says what the outside did. What one world sends to another arrives once. An answer that an operator gave by
//! hand is that receipt if it was taken, is journaled under the operator's name, and is nowhere if it was refused.

use super::Evidence;
use crate::{
    fake_service::CALL,
    history::{Fact, WorldAddress, WorldHistory, cancelled, id_of},
    notes::ByHand,
};
use mundi_kernel::intents::TIMER_SET;
use mundi_model::{
    IntentHash, Value, cbor,
    record::{Body, EffectPolicy, InboxItem, Input, Payload, Receipt, ReceiptStatus, Record},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for (place, history) in &evidence.history.worlds {
        one(evidence, *place, history).map_err(|why| format!("{}: {why}", place.1))?;
    }
    Ok(())
}

fn one(evidence: &Evidence, place: WorldAddress, history: &WorldHistory) -> Result<(), String> {
    published(history)?;
    let (mut messages, mut enqueued, mut by_hand) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (number, _, item) in history.items() {
        if let Input::Receipt(Receipt { operator: Some(operator), .. }) = &item.input {
            by_hand.insert(operator.name.clone());
        }
        match (&item.input, item.origin.sender) {
            (Input::Receipt(receipt), _) if !enqueued.insert(receipt.intent) => {
                return Err(format!("a second receipt of {} was enqueued (commit {number})", receipt.intent));
            }
            (Input::Message { .. }, Some(sender)) if !messages.insert((sender.world, sender.height, id_of(item))) => {
                return Err(format!("a message of {} was enqueued twice (commit {number})", sender.world));
            }
            _ => {}
        }
    }
    let is_answered_by_parent = history.fork().is_some_and(|genesis| {
        use EffectPolicy::{Recorded, RecordedThenLive, Sandbox};
        matches!(genesis.policy, Recorded | RecordedThenLive | Sandbox)
    });
    let mut answered: BTreeMap<IntentHash, Receipt> = BTreeMap::new();
    for (height, body) in history.journal() {
        let Body::Ingress(ingress) = body else { continue };
        let Input::Receipt(receipt) = ingress.item.input else { continue };
        check_answer(evidence, &receipt, is_answered_by_parent)?;
        if answered.insert(receipt.intent, receipt).is_some() {
            return Err(format!("a second receipt was journaled at {height}"));
        }
    }
    answers_by_hand(evidence, place, history, &by_hand, &answered)?;
    if !evidence.settled || !history.lives() {
        return Ok(());
    }
    let withdrawn: BTreeSet<IntentHash> = cancelled(history).into_iter().collect();
    let mut open = announced(history).filter(|intent| !withdrawn.contains(intent) && !answered.contains_key(intent));
    open.next().map_or(Ok(()), |intent| {
        let arrived = if enqueued.contains(&intent) { "which was enqueued" } else { "which was never enqueued" };
        Err(format!("the intent {intent} never got its receipt, {arrived}"))
    })
}

/// The answers that operators got agree with the items that were enqueued and journaled.
fn answers_by_hand(
    evidence: &Evidence,
    place: WorldAddress,
    history: &WorldHistory,
    enqueued: &BTreeSet<String>,
    answered: &BTreeMap<IntentHash, Receipt>,
) -> Result<(), String> {
    let withdrawn = cancelled(history);
    for (name, noted) in evidence.notes.by_hand.iter().filter(|(_, noted)| (noted.universe, noted.world) == place) {
        let ByHand { intent, status, given, .. } = *noted;
        let is_journaled = answered.get(&intent).is_some_and(|receipt| {
            receipt.status == status && receipt.operator.as_ref().is_some_and(|operator| operator.name == *name)
        });
        match given {
            Some(false) if enqueued.contains(name) => {
                return Err(format!("the answer of operator {name} to {intent} was refused and enqueued"));
            }
            Some(true) if !enqueued.contains(name) => {
                return Err(format!("the answer of operator {name} to {intent} was taken and never enqueued"));
            }
            Some(true) if evidence.settled && history.lives() && !is_journaled && !withdrawn.contains(&intent) => {
                return Err(format!("the answer of operator {name} to {intent} was taken and is not the receipt"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The effects of a world: what its journal announces, and what it inherited and either carries out or is answered at once.
fn announced(history: &WorldHistory) -> impl Iterator<Item = IntentHash> {
    let effect = |(_, fact): &(usize, Fact)| match fact {
        Fact::Effect(item) => Some(item.intent),
        Fact::Item(_, InboxItem { input: Input::Receipt(receipt), .. }) => Some(receipt.intent),
        _ => None,
    };
    let intent = |(_, body)| match body {
        Body::Intent(intent) if intent.kind != TIMER_SET => Some(intent.hash),
        _ => None,
    };
    history.facts.iter().filter_map(effect).chain(history.journal().filter_map(intent))
}

/// No moment lies between the record that asks and the queue that serves.
fn published(history: &WorldHistory) -> Result<(), String> {
    for (number, fact) in &history.facts {
        let Fact::Record(height, bytes) = fact else { continue };
        let Ok(Record { body: Body::Intent(intent), .. }) = cbor::decode::<Record>(bytes) else { continue };
        let is_it = |(other, fact): &(usize, Fact)| {
            other == number
                && match fact {
                    Fact::Effect(item) => item.intent == intent.hash,
                    Fact::Timer(item) => item.intent == intent.hash,
                    Fact::Child(child) => *child == intent.hash,
                    // By the policy of a fork: answered at once, and not carried out.
                    Fact::Item(_, InboxItem { input: Input::Receipt(receipt), .. }) => receipt.intent == intent.hash,
                    _ => false,
                }
        };
        // One that is withdrawn within its own turn is not published at all.
        let withdrawn = || cancelled(history).contains(&intent.hash);
        if !history.facts.iter().any(is_it) && !withdrawn() {
            let what = if intent.kind == TIMER_SET { "timer" } else { "effect" };
            return Err(format!("the {what} at {height} was journaled and not published (commit {number})"));
        }
    }
    Ok(())
}

fn check_answer(evidence: &Evidence, receipt: &Receipt, by_parent: bool) -> Result<(), String> {
    if receipt.kind != CALL || receipt.status != ReceiptStatus::Ok {
        return Ok(());
    }
    let Payload::Inline(bytes) = &receipt.payload else { return Ok(()) };
    let said = cbor::decode::<Value>(bytes).ok();
    if let Some(operator) = &receipt.operator {
        let is_own = said == Some(Value::Text(operator.name.clone()));
        return if is_own { Ok(()) } else { Err(format!("a receipt of operator {} says {said:?}", operator.name)) };
    }
    let outside = &evidence.notes.outside;
    let is_anothers = |answer: u64| said == Some(Value::Integer(answer.into()));
    if by_parent
        && !outside.contains_key(&receipt.intent)
        && outside.values().filter_map(|deed| deed.answer).any(is_anothers)
    {
        return Ok(()); // it was done for an ancestor, once
    }
    let deed = outside.get(&receipt.intent).and_then(|deed| deed.answer);
    let did = deed.map(|answer| Value::Integer(answer.into()));
    if said == did { Ok(()) } else { Err(format!("a receipt says {said:?}, and the outside did {did:?}")) }
}
