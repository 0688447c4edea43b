//! `u/<u>/w/<w>/children/events/<child>/<seq>`: the events of a child's life.
//!
//! Written in the transaction that changes the phase of the child's token. Immutable; removed with the token.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use mundi_engine::Transaction;
use mundi_model::{
    UniverseId, WorldId,
    child::{ChildEvent, ChildId},
};

pub fn key(universe: UniverseId, parent: WorldId, child: ChildId, seq: u64) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildEvent).bytes(child.as_bytes()).u64(seq).key()
}

pub(crate) fn prefix(universe: UniverseId, parent: WorldId, child: ChildId) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildEvent).bytes(child.as_bytes()).key()
}

/// The commit depends on it, also on its absence.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    (child, seq): (ChildId, u64),
) -> Result<Option<ChildEvent>, StoreError> {
    get(tx, Family::ChildEvent, &key(universe, parent, child, seq)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    child: ChildId,
    event: &ChildEvent,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent, child, event.seq), event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::{
        Height,
        child::{EventKind, Phase},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_child_and_number(a: ([u8; 16], u64), b: ([u8; 16], u64)) {
            let key = |(child, seq): ([u8; 16], u64)| {
                key(laws::universe(), laws::world(), ChildId::from_bytes(child), seq)
            };
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn the_value_survives(seq: u64, code: Option<String>, dispatch_seq: Option<u64>, noise: Vec<u8>) {
            let event = ChildEvent {
                kind: EventKind::Fail,
                seq,
                at_ns: seq,
                phase: Phase::Terminal,
                parent_seq: Height::new(seq),
                dispatch_seq,
                run: None,
                reason: code.clone(),
                cancel_request_id: code.clone(),
                code,
            };
            laws::value_survives(Family::ChildEvent, &event, &noise)?;
        }
    }
}
