//! Sandboxes: nothing that a sandboxed world asks for reaches the outside or another world, and no fork of one is anything but a
//! sandbox. That each of its intents is answered all the same, [`receipts`](super::receipts) shows.

use super::Evidence;
use crate::history::{Fact, WorldAddress, WorldHistory};
use mundi_model::{
    IntentHash,
    record::{Body, EffectPolicy},
};
use std::collections::BTreeSet;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let worlds = &evidence.history.worlds;
    let is_sandbox =
        |history: &WorldHistory| history.fork().is_some_and(|genesis| genesis.policy == EffectPolicy::Sandbox);
    let sandboxes: BTreeSet<WorldAddress> =
        worlds.iter().filter(|(_, history)| is_sandbox(history)).map(|(place, _)| *place).collect();
    for (place, history) in worlds {
        if sandboxes.contains(place) {
            check_inside(evidence, history).map_err(|why| format!("{}: {why}", place.1))?;
        } else if let Some(genesis) = history.fork().filter(|genesis| sandboxes.contains(&(place.0, genesis.parent))) {
            return Err(format!("{} is a fork of the sandbox {} and none itself", place.1, genesis.parent));
        }
        // A message names its sender, whatever way it came.
        for (number, _, item) in history.items() {
            if let Some(sender) = item.origin.sender.filter(|sender| sandboxes.contains(&(place.0, sender.world))) {
                return Err(format!("{} got something from the sandbox {} (commit {number})", place.1, sender.world));
            }
        }
    }
    Ok(())
}

/// Nothing of it was ever up for anyone to carry out, and the outside never heard of it.
fn check_inside(evidence: &Evidence, history: &WorldHistory) -> Result<(), String> {
    for (number, fact) in &history.facts {
        if matches!(fact, Fact::Child(_)) {
            return Err(format!("its child was queued (commit {number})"));
        }
        if let Fact::Effect(item) = fact {
            return Err(format!("its effect `{}` was published (commit {number})", item.kind));
        }
    }
    let asked = history.journal().filter_map(|(_, body)| match body {
        Body::Intent(intent) => Some(intent.hash),
        _ => None,
    });
    let was_done = |intent: &IntentHash| evidence.notes.outside.contains_key(intent);
    match asked.into_iter().find(was_done) {
        Some(intent) => Err(format!("the outside was asked for its intent {intent}")),
        None => Ok(()),
    }
}
