//! Forks: a branch begins at the height that its client got, with its parent's state; it repeats no effect of its parent unless
//! its policy says so, and then under intents of its own; it loses no input of its own.
//!
//! That it begins equal byte for byte, [`replay`](super::replay) shows; that nothing of its own is lost, the others do.

use super::Evidence;
use crate::history::{Fact, WorldAddress, WorldHistory};
use mundi_model::{
    IntentHash, UniverseId,
    record::{EffectPolicy, ForkGenesis},
};
use std::collections::BTreeMap;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut owners: BTreeMap<(UniverseId, IntentHash), WorldAddress> = BTreeMap::new();
    for (place, history) in &evidence.history.worlds {
        for intent in history.facts.iter().filter_map(published) {
            let owner = *owners.entry((place.0, intent)).or_insert(*place);
            if owner != *place {
                return Err(format!("{} and {} share the intent {intent}", owner.1, place.1));
            }
        }
        if let Some(genesis) = history.fork() {
            check_inherited(history, &genesis).map_err(|why| format!("{}: {why}", place.1))?;
        }
    }
    for told in &evidence.notes.forked {
        let history = evidence.history.worlds.get(&(told.universe, told.child));
        let Some(genesis) = history.and_then(WorldHistory::fork) else {
            return Err(format!("a client was told of {}, which does not exist", told.child));
        };
        if (genesis.parent, genesis.forked_at, genesis.policy) != (told.parent, told.at, told.policy) {
            return Err(format!("{} is another fork than its client was told", told.child));
        }
    }
    Ok(())
}

fn published((_, fact): &(usize, Fact)) -> Option<IntentHash> {
    match fact {
        Fact::Effect(item) => Some(item.intent),
        Fact::Timer(item) => Some(item.intent),
        Fact::Child(intent) => Some(*intent),
        _ => None,
    }
}

/// The effects that are published with the birth of a fork come from its parent, and only into a live one.
fn check_inherited(history: &WorldHistory, genesis: &ForkGenesis) -> Result<(), String> {
    let born = history.facts.iter().find_map(|(number, fact)| matches!(fact, Fact::Meta(_)).then_some(*number));
    let inherits =
        |(number, fact): &&(usize, Fact)| Some(*number) == born && matches!(fact, Fact::Effect(_) | Fact::Child(_));
    if genesis.policy != EffectPolicy::Live && history.facts.iter().any(|fact| inherits(&fact)) {
        return Err("it repeats effects of its parent and was not asked to".to_owned());
    }
    Ok(())
}
