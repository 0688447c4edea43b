//! `u/<u>/timers/dedupe/<world>/<intent_hash>`: what became of a timer, and where it lies while it waits.
//!
//! Written by `commit_turn` (due, cancelled) and by the delivery (delivered). Monotonic in that order. Removed
//! after its window, never while the timer waits. The world is in the key for the reason that
//! [`effect_dedupe`](crate::keyspace::effect_dedupe) gives.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{IntentHash, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TimerDedupe {
    #[n(0)]
    pub status: TimerStatus,
    #[n(1)]
    pub at_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum TimerStatus {
    /// It waits, or is being delivered; a cancellation finds it by its place.
    #[n(0)]
    Due {
        #[n(0)]
        place_ns: u64,
        /// How often its delivery failed.
        #[n(1)]
        attempts: u32,
    },
    #[n(1)]
    Cancelled,
    #[n(2)]
    Delivered,
}

pub fn key(universe: UniverseId, world: WorldId, intent: IntentHash) -> Key {
    KeyBuilder::universe(universe, Family::TimerDedupe).bytes(world.as_bytes()).bytes(intent.as_bytes()).key()
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<(WorldId, IntentHash), StoreError> {
    let prefix = KeyBuilder::universe(universe, Family::TimerDedupe).key();
    let mut reader = KeyReader::after(Family::TimerDedupe, &prefix, key)?;
    let parts = (reader.world()?, reader.intent()?);
    reader.end(parts)
}

/// All records of one world.
pub(crate) fn of_world(universe: UniverseId, world: WorldId) -> Span {
    KeyBuilder::universe(universe, Family::TimerDedupe).bytes(world.as_bytes()).key().span()
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    intent: IntentHash,
) -> Result<Option<TimerDedupe>, StoreError> {
    get(tx, Family::TimerDedupe, &key(universe, world, intent)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    intent: IntentHash,
    dedupe: &TimerDedupe,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, intent), dedupe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_world_then_intent(a in (laws::worlds(), laws::intents()), b in (laws::worlds(), laws::intents())) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |(world, intent)| key(universe, *world, *intent), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(at_ns: u64, place_ns: u64, which in 0..3u8, noise: Vec<u8>) {
            let status = match which {
                0 => TimerStatus::Due { place_ns, attempts: 3 },
                1 => TimerStatus::Cancelled,
                _ => TimerStatus::Delivered,
            };
            laws::value_survives(Family::TimerDedupe, &TimerDedupe { status, at_ns }, &noise)?;
        }
    }
}
