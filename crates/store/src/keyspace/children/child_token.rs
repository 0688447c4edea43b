//! `u/<u>/w/<w>/children/tokens/<child>`: the dispatch token of a child.
//!
//! Written by the turn that spawns the child and by every protocol of children. Its phase is monotonic, and what was drawn for it stays. Removed when the parent
//! keeps more terminal children than it may.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    child::{ChildId, DispatchToken},
};

pub fn key(universe: UniverseId, parent: WorldId, child: ChildId) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildToken).bytes(child.as_bytes()).key()
}

pub fn parse(universe: UniverseId, parent: WorldId, key: &[u8]) -> Result<ChildId, StoreError> {
    let prefix = KeyBuilder::world(universe, parent, Family::ChildToken).key();
    let mut reader = KeyReader::after(Family::ChildToken, &prefix, key)?;
    let child = ChildId::from_bytes(*reader.world()?.as_bytes());
    reader.end(child)
}

/// The commit depends on it, also on its absence.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    child: ChildId,
) -> Result<Option<DispatchToken>, StoreError> {
    get(tx, Family::ChildToken, &key(universe, parent, child)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, token: &DispatchToken) -> Result<(), StoreError> {
    put(tx, &key(universe, token.parent, token.child), token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::{
        Height,
        child::{Phase, Spend},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_child(a: [u8; 16], b: [u8; 16]) {
            let (universe, world) = (laws::universe(), laws::world());
            let children = (ChildId::from_bytes(a), ChildId::from_bytes(b));
            laws::keys_are_ordered(children, |it| key(universe, world, *it), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(
            child: [u8; 16],
            intent in laws::intents(),
            params in laws::payloads(),
            label: String,
            seq: u64,
            cancel_request_id: Option<String>,
            noise: Vec<u8>,
        ) {
            let token = DispatchToken {
                child: ChildId::from_bytes(child),
                parent: laws::world(),
                parent_seq: Height::new(seq),
                intent,
                kind: label.clone(),
                label,
                params,
                budget: Spend::default(),
                queue_seq: seq,
                dispatch_seq: None,
                run: None,
                phase: Phase::Queued,
                events: 0,
                cancel_request_id,
                withdrawn: false,
                spent: Spend::default(),
                spawned_at_ns: seq,
                started_at_ns: None,
                end: None,
                manifest: None,
                trace: None,
                correlation_id: None,
                call: None,
            };
            laws::value_survives(Family::ChildToken, &token, &noise)?;
        }
    }
}
