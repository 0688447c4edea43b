//! Claims: the claim of an effect is ended, extended or released only by the run of the node that made it or by a later run of the
//! same node, by a turn that got the answer to that claim or replies to the call that the effect makes, by an operator's answer to the intent, or by a node
//! whose clock has passed the claim's deadline.

use super::Evidence;
use crate::{
    log::{Author, Commit, Write},
    protocol::Protocol,
};
use bytes::Bytes;
use mundi_kernel::intents::WORLD_CALL;
use mundi_model::{
    UniverseId, WorkerId, cbor,
    record::{InboxItem, Input},
};
use mundi_store::keyspace::{
    Family, Parts,
    effect_dedupe::{self, EffectDedupe},
    effect_inflight::EffectInflight,
};
use std::{collections::BTreeMap, fmt};

/// The holders that may act on a claim.
#[derive(Clone, Copy)]
enum ClaimHolder {
    Life(Author),
    /// A turn of its world started the effect in a slot of this worker, in whichever life.
    StartedFor(WorkerId),
}

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut held: BTreeMap<&Bytes, (ClaimHolder, EffectInflight)> = BTreeMap::new();
    for (number, commit) in evidence.commits.iter().enumerate() {
        for write in &commit.writes {
            let key = write.key();
            let Some(parts) = Parts::of(key).filter(|parts| parts.family == Family::EffectInflight) else { continue };
            if let Some((holder, inflight)) = held.get(key)
                && !holder.is(commit.author)
                && !is_answer(evidence, (number, commit), inflight)
                && !is_reply(commit, inflight)
                && !is_by_hand(parts.universe, commit, inflight)
                && inflight.claim.deadline_ns > commit.clock_ns_max
            {
                let (protocol, author) = (commit.protocol, commit.author);
                return Err(format!("{author} ended a claim of {holder} ({protocol}, commit {number})"));
            }
            match write {
                Write::Put(_, value) => {
                    let inflight: EffectInflight = cbor::decode(value).map_err(|error| error.to_string())?;
                    let holder = match commit.protocol {
                        Protocol::CommitTurn => ClaimHolder::StartedFor(inflight.claim.worker),
                        _ => ClaimHolder::Life(commit.author),
                    };
                    held.insert(key, (holder, inflight));
                }
                _ => drop(held.remove(key)),
            }
        }
    }
    Ok(())
}

/// Whether a turn ends the claim that its holder has handed the answer of.
fn is_answer(evidence: &Evidence, (number, commit): (usize, &Commit), inflight: &EffectInflight) -> bool {
    let answer = (inflight.claim.token, inflight.item.intent);
    commit.protocol == Protocol::CommitTurn && evidence.handed.get(&answer).is_some_and(|handed| *handed <= number)
}

/// Whether a turn replies to a call whose effect was claimed at its deadline: the same commit puts the receipt into the caller's inbox.
fn is_reply(commit: &Commit, inflight: &EffectInflight) -> bool {
    let item = |write: &Write| match write {
        Write::Put(key, value) if Parts::of(key).is_some_and(|parts| parts.family == Family::InboxEntry) => {
            cbor::decode::<InboxItem>(value).ok()
        }
        _ => None,
    };
    let is_its =
        |item: InboxItem| matches!(item.input, Input::Receipt(receipt) if receipt.intent == inflight.item.intent);
    let is_call = commit.protocol == Protocol::CommitTurn && inflight.item.kind == WORLD_CALL;
    is_call && commit.writes.iter().filter_map(item).any(is_its)
}

/// Whether an operator ends the claim with a receipt of their own: the same commit says so of the intent.
fn is_by_hand(universe: UniverseId, commit: &Commit, inflight: &EffectInflight) -> bool {
    let key = effect_dedupe::key(universe, inflight.item.world, inflight.item.intent);
    let is_hand = |value: &Bytes| cbor::decode::<EffectDedupe>(value).is_ok_and(|dedupe| dedupe.by_hand.is_some());
    commit.writes.iter().any(|write| match write {
        Write::Put(written, value) => written == key.as_bytes() && is_hand(value),
        _ => false,
    })
}

impl ClaimHolder {
    fn is(self, author: Author) -> bool {
        match self {
            Self::Life(life) => life.node == author.node && life.life <= author.life,
            Self::StartedFor(worker) => worker == author.worker(),
        }
    }
}

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Life(author) => author.fmt(f),
            Self::StartedFor(worker) => worker.fmt(f),
        }
    }
}
