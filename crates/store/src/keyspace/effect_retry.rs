//! `u/<u>/effects/retry/<lane>/<place_ns>/<seq>`: intents that wait for their next attempt, by the time of it.
//!
//! Written when a claim is given back or runs out, and when a rate limit defers an intent; removed by the claim. The
//! item keeps its sequence. They lie apart from [`effect_pending`](super::effect_pending), so that a thousand intents
//! that back off are not in the way of those that need not wait. Scanned from [`low_water`](super::low_water).

use super::{Family, Key, KeyBuilder, KeyReader, Lane, Span, effect_pending::EffectItem, put, queue::QueueSeq};
use crate::StoreError;
use mundi_engine::Transaction;
use mundi_model::UniverseId;

/// Where in a lane an intent waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryPlace {
    pub place_ns: u64,
    pub seq: QueueSeq,
}

pub fn key(universe: UniverseId, lane: Lane, place: RetryPlace) -> Key {
    let builder = KeyBuilder::universe(universe, Family::EffectRetry).lane(lane);
    builder.u64(place.place_ns).bytes(place.seq.as_bytes()).key()
}

fn prefix(universe: UniverseId, lane: Lane) -> Key {
    KeyBuilder::universe(universe, Family::EffectRetry).lane(lane).key()
}

fn prefix_at(universe: UniverseId, lane: Lane, ns: u64) -> Key {
    KeyBuilder::universe(universe, Family::EffectRetry).lane(lane).u64(ns).key()
}

/// Those that are placed in `from_ns..=to_ns`.
pub fn between(universe: UniverseId, lane: Lane, from_ns: u64, to_ns: u64) -> Span {
    let end = match to_ns.checked_add(1) {
        Some(end) => prefix_at(universe, lane, end),
        None => prefix(universe, lane).span().end,
    };
    Span { start: prefix_at(universe, lane, from_ns), end }
}

pub fn parse(universe: UniverseId, lane: Lane, key: &[u8]) -> Result<RetryPlace, StoreError> {
    let mut reader = KeyReader::after(Family::EffectRetry, &prefix(universe, lane), key)?;
    let place = RetryPlace { place_ns: reader.u64()?, seq: reader.queue_seq()? };
    reader.end(place)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    lane: Lane,
    place: RetryPlace,
    item: &EffectItem,
) -> Result<(), StoreError> {
    put(tx, &key(universe, lane, place), item)
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
            let (universe, lane) = (laws::universe(), Lane::new("k", Shard::of(b"x")));
            laws::keys_are_ordered((a, b), |place| key(universe, lane, *place), |key| parse(universe, lane, key))?;
        }

        #[test]
        fn an_intent_is_due_from_its_place_on(place in places(), now: u64) {
            let (universe, lane) = (laws::universe(), Lane::new("k", Shard::of(b"x")));
            let (span, key) = (between(universe, lane, 0, now), key(universe, lane, place));
            prop_assert_eq!(span.start <= key && key < span.end, place.place_ns <= now);
        }
    }
}
