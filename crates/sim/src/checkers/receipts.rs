//! Receipts: every intent that a journal announces is published in the same transaction, and gets exactly one terminal
//! receipt; an `ok` says what the outside did. What one world sends to another arrives once.

use super::Evidence;
use crate::{
    outside::CALL,
    story::{Fact, WorldStory, cancelled, id_of},
};
use mundi_kernel::intents::TIMER_SET;
use mundi_model::{
    IntentHash, Value, cbor,
    record::{Body, Input, Payload, Receipt, ReceiptStatus, Record},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), story) in &evidence.story.worlds {
        one(evidence, story).map_err(|why| format!("{world}: {why}"))?;
    }
    Ok(())
}

fn one(evidence: &Evidence, story: &WorldStory) -> Result<(), String> {
    published(story)?;
    let (mut messages, mut enqueued) = (BTreeSet::new(), BTreeSet::new());
    for (number, _, item) in story.items() {
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
    let mut answered: BTreeMap<IntentHash, Receipt> = BTreeMap::new();
    for (height, body) in story.journal() {
        let Body::Ingress(ingress) = body else { continue };
        let Input::Receipt(receipt) = ingress.item.input else { continue };
        check_answer(evidence, &receipt)?;
        if answered.insert(receipt.intent, receipt).is_some() {
            return Err(format!("a second receipt was journaled at {height}"));
        }
    }
    if !evidence.settled || !story.lives() {
        return Ok(());
    }
    let withdrawn: BTreeSet<IntentHash> = cancelled(story).into_iter().collect();
    let mut open = announced(story).filter(|intent| !withdrawn.contains(intent) && !answered.contains_key(intent));
    open.next().map_or(Ok(()), |intent| Err(format!("the intent {intent} never got its receipt")))
}

/// The effects of a world: what its journal announces, and what it inherited.
fn announced(story: &WorldStory) -> impl Iterator<Item = IntentHash> {
    let effect = |(_, fact): &(usize, Fact)| match fact {
        Fact::Effect(item) => Some(item.intent),
        _ => None,
    };
    story.facts.iter().filter_map(effect)
}

/// No moment lies between the record that asks and the queue that serves.
fn published(story: &WorldStory) -> Result<(), String> {
    for (number, fact) in &story.facts {
        let Fact::Record(height, bytes) = fact else { continue };
        let Ok(Record { body: Body::Intent(intent), .. }) = cbor::decode::<Record>(bytes) else { continue };
        let is_it = |(other, fact): &(usize, Fact)| {
            other == number
                && match fact {
                    Fact::Effect(item) => item.intent == intent.hash,
                    Fact::Timer(item) => item.intent == intent.hash,
                    _ => false,
                }
        };
        // One that is withdrawn within its own turn is not published at all.
        let withdrawn = || cancelled(story).contains(&intent.hash);
        if !story.facts.iter().any(is_it) && !withdrawn() {
            let what = if intent.kind == TIMER_SET { "timer" } else { "effect" };
            return Err(format!("the {what} at {height} was journaled and not published (commit {number})"));
        }
    }
    Ok(())
}

fn check_answer(evidence: &Evidence, receipt: &Receipt) -> Result<(), String> {
    if receipt.kind != CALL || receipt.status != ReceiptStatus::Ok {
        return Ok(());
    }
    let Payload::Inline(bytes) = &receipt.payload else { return Ok(()) };
    let said = cbor::decode::<Value>(bytes).ok();
    let deed = evidence.notes.outside.get(&receipt.intent).and_then(|deed| deed.answer);
    let did = deed.map(|answer| Value::Integer(answer.into()));
    if said == did { Ok(()) } else { Err(format!("a receipt says {said:?}, and the outside did {did:?}")) }
}
