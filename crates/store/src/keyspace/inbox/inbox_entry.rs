//! `u/<u>/w/<w>/inbox/e/<seq>`: what waits for a world, and what it consumed a while ago.
//!
//! Written by `enqueue`, by anyone; removed by `compact_inbox` a grace period after it was consumed. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, get};
use mundi_engine::Transaction;
use mundi_model::{InboxSeq, UniverseId, WorldId, record::InboxItem};

pub fn key(universe: UniverseId, world: WorldId, seq: InboxSeq) -> Key {
    KeyBuilder::world(universe, world, Family::InboxEntry).bytes(seq.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::InboxEntry).key()
}

/// The items strictly after a cursor: never a scan from the prefix, where the consumed ones lie.
pub fn after(universe: UniverseId, world: WorldId, cursor: Option<InboxSeq>) -> Span {
    let all = prefix(universe, world).span();
    match cursor {
        Some(cursor) => all.after(&key(universe, world, cursor)),
        None => all,
    }
}

pub(crate) fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<InboxSeq, StoreError> {
    let mut reader = KeyReader::after(Family::InboxEntry, &prefix(universe, world), key)?;
    let seq = reader.seq()?;
    reader.end(seq)
}

pub(crate) fn decode(key: &[u8], bytes: &[u8]) -> Result<InboxItem, StoreError> {
    decode_value(Family::InboxEntry, key, bytes)
}

/// The item at a place, consumed or not.
pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    seq: InboxSeq,
) -> Result<Option<InboxItem>, StoreError> {
    get(tx, Family::InboxEntry, &key(universe, world, seq)).await
}

/// Adds an item, whose sequence is the stamp of this commit and its index among the items of it.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    index: u16,
    item: Vec<u8>,
) -> Result<(), StoreError> {
    Ok(tx.put_stamped(prefix(universe, world).as_bytes(), &index.to_be_bytes(), item)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::record::{Input, Origin};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in laws::seqs(), b in laws::seqs()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |seq| key(universe, world, *seq), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_span_after_a_cursor_excludes_it_and_nothing_later(a in laws::seqs(), b in laws::seqs()) {
            let (universe, world) = (laws::universe(), laws::world());
            let span = after(universe, world, Some(a));
            let key = key(universe, world, b);
            prop_assert_eq!(span.start <= key && key < span.end, b > a);
        }

        #[test]
        fn the_value_survives(schema: String, value in laws::payloads(), at: u64, noise: Vec<u8>) {
            let origin =
                Origin { wants_reply: true, ..Origin::new(at) };
            let item = InboxItem { input: Input::Event { schema, value, key: None }, origin };
            laws::value_survives(Family::InboxEntry, &item, &noise)?;
        }
    }
}
