//! `u/<u>/timers/due/<shard>/<bucket>/<place_ns>/<intent_hash>`: timers that wait for their time.
//!
//! Written by `commit_turn`; removed by the delivery, or by a turn that cancels it, and moved to a later place when a
//! delivery failed. Immutable. A shard is
//! scanned from its [`low_water`](crate::keyspace::low_water) mark; buckets let a scanner drop a whole stretch of time at once.
//!
//! There is no family of claimed timers: a timer is delivered by one transaction, with nothing to be done outside it, so
//! between "due" and "delivered" there is no state in which a worker could die.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, KeyReader, QueueShard, Shard, Span, decode_value, put, queue_notify::TIMERS,
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{
    Height, InboxSeq, IntentHash, UniverseId, WorldId,
    mutants::{Mutant, planted},
    record::Payload,
};

/// How much time lies in one bucket: long enough to hold many timers, short enough to drop soon.
pub const BUCKET_NS: u64 = 10_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TimerItem {
    #[n(0)]
    pub world: WorldId,
    #[n(1)]
    pub intent: IntentHash,
    /// The height of the intent's record.
    #[n(2)]
    pub height: Height,
    /// When the program wants it. Its place in the queue may be later: see [`place`].
    #[n(3)]
    pub deliver_at_ns: u64,
    #[n(4)]
    pub payload: Payload,
    #[n(5)]
    pub published_at_ns: u64,
    /// W3C `traceparent`.
    #[n(6)]
    pub trace: Option<String>,
    /// The correlation id of the event that led to it.
    #[n(7)]
    pub correlation_id: Option<String>,
    /// The call that the program works for.
    #[n(8)]
    pub call: Option<InboxSeq>,
}

/// Where in a shard a timer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerPlace {
    pub place_ns: u64,
    pub intent: IntentHash,
}

pub fn shard(intent: IntentHash) -> Shard {
    Shard::of(intent.as_bytes())
}

/// The queue shard under which the low-water mark of a shard is kept.
pub fn queue_shard(shard: Shard) -> QueueShard {
    QueueShard::new(TIMERS, shard)
}

/// A timer that is due already when it is set is placed at the low-water mark, where the next scan starts:
/// below it nobody looks any more.
pub fn place(intent: IntentHash, deliver_at_ns: u64, low_water_ns: u64) -> TimerPlace {
    TimerPlace { place_ns: deliver_at_ns.max(low_water_ns), intent }
}

pub fn key(universe: UniverseId, shard: Shard, place: TimerPlace) -> Key {
    let universe = if planted(Mutant::UniverseCrossed) { UniverseId::from_bytes([1; 16]) } else { universe };
    let bucket = KeyBuilder::universe(universe, Family::TimerDue).u8(shard.get()).u64(place.place_ns / BUCKET_NS);
    bucket.u64(place.place_ns).bytes(place.intent.as_bytes()).key()
}

fn prefix(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::TimerDue).u8(shard.get()).key()
}

/// The timers of a shard that are placed in `from_ns..=now_ns`.
pub fn due(universe: UniverseId, shard: Shard, from_ns: u64, now_ns: u64) -> Span {
    let at = |ns: u64| prefix_at(universe, shard, ns);
    Span { start: at(from_ns), end: now_ns.checked_add(1).map_or_else(|| prefix(universe, shard).span().end, at) }
}

fn prefix_at(universe: UniverseId, shard: Shard, ns: u64) -> Key {
    KeyBuilder::universe(universe, Family::TimerDue).u8(shard.get()).u64(ns / BUCKET_NS).u64(ns).key()
}

pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<TimerPlace, StoreError> {
    let mut reader = KeyReader::after(Family::TimerDue, &prefix(universe, shard), key)?;
    let bucket = reader.u64()?;
    let place = TimerPlace { place_ns: reader.u64()?, intent: reader.intent()? };
    if bucket != place.place_ns / BUCKET_NS {
        return Err(reader.bad());
    }
    reader.end(place)
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<TimerItem, StoreError> {
    decode_value(Family::TimerDue, key, bytes)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    place: TimerPlace,
    item: &TimerItem,
) -> Result<(), StoreError> {
    put(tx, &key(universe, shard(item.intent), place), item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = TimerPlace> {
        (any::<u64>(), laws::intents()).prop_map(|(place_ns, intent)| TimerPlace { place_ns, intent })
    }

    #[test]
    fn a_timer_is_never_placed_below_the_low_water_mark() {
        let intent = IntentHash::of(b"i");
        assert_eq!(place(intent, 5, 0).place_ns, 5);
        assert_eq!(place(intent, 5, 9).place_ns, 9);
        assert_eq!(place(intent, 12, 9).place_ns, 12);
    }

    proptest! {
        #[test]
        fn keys_sort_by_time(a in places(), b in places()) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            laws::keys_are_ordered((a, b), |place| key(universe, shard, *place), |key| parse(universe, shard, key))?;
        }

        #[test]
        fn a_timer_is_due_from_its_place_on(place in places(), now: u64) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            let (span, key) = (due(universe, shard, 0, now), key(universe, shard, place));
            prop_assert_eq!(span.start <= key && key < span.end, place.place_ns <= now);
        }

        #[test]
        fn the_value_survives(
            world in laws::worlds(),
            intent in laws::intents(),
            height in laws::heights(),
            times: (u64, u64),
            payload in laws::payloads(),
            noise: Vec<u8>,
        ) {
            let (deliver_at_ns, published_at_ns) = times;
            let item = TimerItem { world, intent, height, deliver_at_ns, payload, published_at_ns, trace: None, correlation_id: None, call: None };
            laws::value_survives(Family::TimerDue, &item, &noise)?;
        }
    }
}
