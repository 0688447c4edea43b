//! `u/<u>/effects/retry/<queue shard>/<place_ns>/<seq>`: intents that wait for their next attempt, by the time of it.
//!
//! Written when a claim is released or expires, and when a rate limit defers an intent; removed by the claim. The
//! item keeps its sequence. They lie apart from [`effect_pending`](crate::keyspace::effect_pending), so that a thousand intents
//! that back off are not in the way of those that need not wait. Scanned from [`low_water`](crate::keyspace::low_water). Immutable.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, KeyReader, QueueShard, Span, effect_pending::EffectItem, put, queue::QueueSeq,
};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

/// Where in a queue shard an intent waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryPlace {
    pub place_ns: u64,
    pub seq: QueueSeq,
}

pub fn key(universe: UniverseId, queue_shard: QueueShard, place: RetryPlace) -> Key {
    let builder = KeyBuilder::universe(universe, Family::EffectRetry).queue_shard(queue_shard);
    builder.u64(place.place_ns).bytes(place.seq.as_bytes()).key()
}

fn prefix(universe: UniverseId, queue_shard: QueueShard) -> Key {
    KeyBuilder::universe(universe, Family::EffectRetry).queue_shard(queue_shard).key()
}

fn prefix_at(universe: UniverseId, queue_shard: QueueShard, ns: u64) -> Key {
    KeyBuilder::universe(universe, Family::EffectRetry).queue_shard(queue_shard).u64(ns).key()
}

/// Those that are placed in `from_ns..=to_ns`.
pub fn between(universe: UniverseId, queue_shard: QueueShard, from_ns: u64, to_ns: u64) -> Span {
    let end = match to_ns.checked_add(1) {
        Some(end) => prefix_at(universe, queue_shard, end),
        None => prefix(universe, queue_shard).span().end,
    };
    Span { start: prefix_at(universe, queue_shard, from_ns), end }
}

pub fn parse(universe: UniverseId, queue_shard: QueueShard, key: &[u8]) -> Result<RetryPlace, StoreError> {
    let mut reader = KeyReader::after(Family::EffectRetry, &prefix(universe, queue_shard), key)?;
    let place = RetryPlace { place_ns: reader.u64()?, seq: reader.queue_seq()? };
    reader.end(place)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue_shard: QueueShard,
    place: RetryPlace,
    item: &EffectItem,
) -> Result<(), StoreError> {
    put(tx, &key(universe, queue_shard, place), item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Shard, laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = RetryPlace> {
        (any::<u64>(), queue_seqs()).prop_map(|(place_ns, seq)| RetryPlace { place_ns, seq })
    }

    proptest! {
        #[test]
        fn keys_sort_by_time_then_sequence(a in places(), b in places()) {
            let (universe, queue_shard) = (laws::universe(), QueueShard::new("k", Shard::of(b"x")));
            laws::keys_are_ordered((a, b), |place| key(universe, queue_shard, *place), |key| parse(universe, queue_shard, key))?;
        }

        #[test]
        fn an_intent_is_due_from_its_place_on(place in places(), now: u64) {
            let (universe, queue_shard) = (laws::universe(), QueueShard::new("k", Shard::of(b"x")));
            let (span, key) = (between(universe, queue_shard, 0, now), key(universe, queue_shard, place));
            prop_assert_eq!(span.start <= key && key < span.end, place.place_ns <= now);
        }
    }
}
