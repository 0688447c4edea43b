//! Calls of worlds: each is enqueued at most once; its receipt is the reply that stands in the destination's journal, or the failure that
//! does; and a reply that is on record has ended the call: no deadline takes it away afterwards.

use super::Evidence;
use crate::history::{Fact, WorldAddress, WorldHistory, cancelled};
use mundi_kernel::intents::WORLD_CALL;
use mundi_model::{
    InboxSeq, IntentHash, Value, cbor,
    record::{Body, EffectPolicy, Input, Payload, Receipt, ReceiptStatus, Record, Rejected, Reply, ReplyOutcome},
};
use std::collections::BTreeMap;

/// A call that was enqueued: where.
type Called = (WorldAddress, InboxSeq);

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut calls: BTreeMap<(WorldAddress, IntentHash), Called> = BTreeMap::new();
    for (place, history) in &evidence.history.worlds {
        for (number, fact) in &history.facts {
            let Fact::Call(seq, open) = fact else { continue };
            let (universe, world, intent) = open.caller();
            let called = (*place, *seq);
            if *calls.entry(((universe, world), intent)).or_insert(called) != called {
                return Err(format!(
                    "{world} called twice for {intent}: the second time {} (commit {number})",
                    place.1
                ));
            }
        }
    }
    let replies: BTreeMap<WorldAddress, BTreeMap<InboxSeq, (usize, ReplyOutcome)>> =
        evidence.history.worlds.iter().map(|(place, history)| (*place, first_replies(history))).collect();
    for (place, history) in &evidence.history.worlds {
        one(*place, history, &calls, &replies).map_err(|why| format!("{}: {why}", place.1))?;
    }
    Ok(())
}

type Replies = BTreeMap<WorldAddress, BTreeMap<InboxSeq, (usize, ReplyOutcome)>>;

/// The first reply of a world to each place of its inbox, with the commit.
fn first_replies(history: &WorldHistory) -> BTreeMap<InboxSeq, (usize, ReplyOutcome)> {
    let mut replies = BTreeMap::new();
    for (number, fact) in &history.facts {
        let Fact::Record(height, bytes) = fact else { continue };
        let (to, outcome) = match cbor::decode::<Record>(bytes).map(|record| record.body) {
            Ok(Body::Reply(Reply { to, outcome })) => (to, outcome),
            Ok(Body::Rejected(Rejected { seq, code, reason, .. })) => {
                (seq, ReplyOutcome::Failed(code, reason, Some(*height)))
            }
            _ => continue,
        };
        replies.entry(to).or_insert((*number, outcome));
    }
    replies
}

fn one(
    place: WorldAddress,
    history: &WorldHistory,
    calls: &BTreeMap<(WorldAddress, IntentHash), Called>,
    replies: &Replies,
) -> Result<(), String> {
    let reply_to = |intent: IntentHash| {
        let (called, seq) = calls.get(&(place, intent))?;
        replies.get(called)?.get(seq)
    };
    let by_parent = history.fork().is_some_and(|genesis| {
        use EffectPolicy::{Recorded, RecordedThenLive, Sandbox};
        matches!(genesis.policy, Recorded | RecordedThenLive | Sandbox)
    });
    let mut ended: BTreeMap<IntentHash, usize> = BTreeMap::new();
    for (number, _, item) in history.items() {
        let Input::Receipt(receipt) = &item.input else { continue };
        if receipt.kind != WORLD_CALL {
            continue;
        }
        ended.entry(receipt.intent).or_insert(number);
        let is_inherited = by_parent && !calls.contains_key(&(place, receipt.intent));
        if receipt.operator.is_none() && !is_inherited {
            agree(receipt, reply_to(receipt.intent).map(|(_, outcome)| outcome))?;
        }
    }
    let withdrawn = cancelled(history);
    for ((_, intent), _) in calls.range((place, FIRST)..=(place, LAST)) {
        let Some((replied, _)) = reply_to(*intent) else { continue };
        let is_late = ended.get(intent).is_none_or(|ended| ended > replied);
        if is_late && history.exists() && !withdrawn.contains(intent) {
            return Err(format!("the reply to {intent} is on record (commit {replied}), and was not its receipt"));
        }
    }
    Ok(())
}

const FIRST: IntentHash = IntentHash::from_bytes([0; 32]);
const LAST: IntentHash = IntentHash::from_bytes([0xff; 32]);

/// Whether a receipt says what the destination's journal says.
fn agree(receipt: &Receipt, reply: Option<&ReplyOutcome>) -> Result<(), String> {
    let code = match &receipt.payload {
        Payload::Inline(bytes) => match cbor::decode::<Value>(bytes) {
            Ok(Value::Map(fields)) => fields.get("code").cloned(),
            _ => None,
        },
        Payload::Blob(..) => None,
    };
    let is_failure = code == Some(Value::Text("CALL_FAILED".to_owned()));
    match (receipt.status, reply) {
        (ReceiptStatus::Ok, Some(ReplyOutcome::Ok(payload))) if *payload == receipt.payload => Ok(()),
        (ReceiptStatus::Ok, found) => Err(format!("the receipt of {} is not the reply: {found:?}", receipt.intent)),
        (ReceiptStatus::Error, Some(ReplyOutcome::Failed(..))) if is_failure => Ok(()),
        (ReceiptStatus::Error, found) if is_failure => {
            Err(format!("the receipt of {} tells of a failure: {found:?}", receipt.intent))
        }
        _ => Ok(()),
    }
}
