//! Universes are isolated: no transaction writes into two, and no record names another than its own.

use super::Evidence;
use mundi_model::{UniverseId, record::Body};
use mundi_store::keyspace::Parts;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for commit in &evidence.commits {
        let mut universes = commit.writes.iter().filter_map(|write| Parts::of(write.key()).map(|parts| parts.universe));
        let first: Option<UniverseId> = universes.next();
        if let Some(other) = universes.find(|universe| Some(*universe) != first) {
            return Err(format!("{} by {} writes into {first:?} and {other}", commit.protocol, commit.author));
        }
    }
    for ((universe, world), history) in &evidence.history.worlds {
        for (height, body) in history.journal() {
            let named = match body {
                Body::Genesis(genesis) => (genesis.universe, genesis.world),
                Body::ForkGenesis(genesis) => (genesis.universe, genesis.world),
                _ => continue,
            };
            if named != (*universe, *world) {
                return Err(format!("the record {height} of {world} in {universe} names {named:?}"));
            }
        }
    }
    Ok(())
}
