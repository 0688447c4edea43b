//! Ingress: what was acknowledged is journaled exactly once and in order, what is unknown at most once, and nothing is
//! journaled that no client sent. A caller gets the reply to its own call.

use super::Evidence;
use crate::{
    history::{WorldAddress, WorldHistory, id_of},
    notes::{Fate, Sent},
};
use mundi_model::{
    InboxSeq,
    record::{Body, Input},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut by_world: BTreeMap<WorldAddress, Vec<&Sent>> = BTreeMap::new();
    for sent in &evidence.notes.sent {
        by_world.entry((sent.universe, sent.world)).or_default().push(sent);
    }
    for (place, history) in &evidence.history.worlds {
        let sent = by_world.get(place).map_or(&[][..], |sent| &sent[..]);
        one(evidence, history, sent).map_err(|why| format!("{}: {why}", place.1))?;
    }
    let answers = evidence.notes.answers.iter();
    match answers.into_iter().find(|(id, answer)| id.as_bytes() != &answer[..]) {
        Some((id, answer)) => Err(format!("the caller {id} was told {:?}", String::from_utf8_lossy(answer))),
        None => Ok(()),
    }
}

fn one(evidence: &Evidence, history: &WorldHistory, sent: &[&Sent]) -> Result<(), String> {
    let known: BTreeSet<&str> = sent.iter().map(|sent| &sent.id[..]).collect();
    let mut enqueued: BTreeMap<InboxSeq, Option<String>> = BTreeMap::new();
    for (number, seq, item) in history.items() {
        if enqueued.insert(seq, id_of(item)).is_some() {
            return Err(format!("two items were enqueued at {seq}: one is lost (commit {number})"));
        }
    }
    let (mut taken, mut ids, mut last) = (BTreeSet::new(), BTreeSet::new(), None);
    for (height, body) in history.journal() {
        let (seq, event) = match body {
            Body::Ingress(ingress) => {
                let is_event = matches!(ingress.item.input, Input::Event { .. });
                // A paused world takes commands ahead of their turn.
                if !matches!(ingress.item.input, Input::Control { .. }) && last.replace(ingress.seq) > Some(ingress.seq)
                {
                    return Err(format!("the record {height} is out of order"));
                }
                (ingress.seq, is_event.then(|| id_of(&ingress.item)).flatten())
            }
            Body::Rejected(rejected) => (rejected.seq, None),
            _ => continue,
        };
        // What was handed to the world directly stands in the journal only.
        if seq.is_direct() {
            enqueued.insert(seq, event.clone());
        }
        if !enqueued.contains_key(&seq) {
            return Err(format!("the record {height} was never enqueued"));
        }
        if !taken.insert(seq) {
            return Err(format!("the item {seq} was journaled twice, the second time at {height}"));
        }
        let Some(id) = event else { continue };
        if !known.contains(&id[..]) {
            return Err(format!("nobody sent {id}, which is journaled at {height}"));
        }
        if !ids.insert(id.clone()) {
            return Err(format!("{id} was journaled twice, the second time at {height}"));
        }
    }
    in_order(sent)?;
    let mut acknowledged = sent.iter().filter_map(|sent| match sent.fate {
        Fate::Acknowledged(seq) => Some((&sent.id, seq)),
        _ => None,
    });
    acknowledged.try_for_each(|(id, seq)| match enqueued.get(&seq) {
        None if history.exists() => Err(format!("{id} was acknowledged at {seq} and is not in the inbox")),
        Some(Some(other)) if other != id => Err(format!("{id} was acknowledged at {seq}, where {other} is")),
        _ if evidence.settled && history.lives() && !taken.contains(&seq) => {
            Err(format!("{id} was acknowledged at {seq} and never journaled"))
        }
        _ => Ok(()),
    })
}

/// An item that was acknowledged before another was sent precedes it. An item that was sent again began with its first try.
fn in_order(sent: &[&Sent]) -> Result<(), String> {
    let mut began: BTreeMap<&str, u64> = BTreeMap::new();
    for sent in sent {
        let first = began.entry(&sent.id).or_insert(sent.began);
        *first = sent.began.min(*first);
    }
    let placed = |sent: &&'_ Sent| match sent.fate {
        Fate::Acknowledged(seq) => Some((began[&sent.id[..]], sent.ended, seq, sent.id.clone())),
        _ => None,
    };
    let placed: Vec<_> = sent.iter().filter_map(placed).collect();
    for (_, ended, before, one) in &placed {
        if let Some((.., other)) = placed.iter().find(|(began, _, after, _)| began > ended && after < before) {
            return Err(format!("{one} was acknowledged before {other} was sent, and stands behind it"));
        }
    }
    Ok(())
}
