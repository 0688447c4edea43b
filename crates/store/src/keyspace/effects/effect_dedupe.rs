//! `u/<u>/effects/dedupe/<world>/<intent_hash>`: what became of a published intent.
//!
//! Written by `commit_turn` (pending, cancelled) and by the acknowledgement (complete). Monotonic in that order.
//! Removed after its window, never while the intent is open. There is none for an intent in a slot of its world's process: its claim says
//! that it is pending, and the turn that takes its receipt leaves nothing behind. If the world withdraws such a one, that stands
//! here for as long as the claim does. The world is in the key although the intent
//! hash covers it: no mistake in a hash can make one world's effect swallow another's.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, effect_attempt::FailedAttempt, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, IntentHash, UniverseId, WorldId, record::ReceiptStatus};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectDedupe {
    #[n(0)]
    pub status: EffectStatus,
    #[n(1)]
    pub at_ns: u64,
    /// An operator gave the receipt, and which one: it may be given again, and a worker's is refused.
    #[n(2)]
    pub by_hand: Option<Hash>,
    /// Of one that is complete: its newest attempts that failed, for people. `None` if there were none.
    #[n(3)]
    pub failed: Option<Vec<FailedAttempt>>,
}

impl EffectDedupe {
    pub fn new(status: EffectStatus, at_ns: u64) -> Self {
        Self { status, at_ns, by_hand: None, failed: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EffectStatus {
    #[n(0)]
    Pending,
    /// The world withdrew it: its next claimer drops it.
    #[n(1)]
    Cancelled,
    /// Its terminal receipt was enqueued.
    #[n(2)]
    Complete(#[n(0)] ReceiptStatus),
}

pub fn key(universe: UniverseId, world: WorldId, intent: IntentHash) -> Key {
    KeyBuilder::universe(universe, Family::EffectDedupe).bytes(world.as_bytes()).bytes(intent.as_bytes()).key()
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<(WorldId, IntentHash), StoreError> {
    let prefix = KeyBuilder::universe(universe, Family::EffectDedupe).key();
    let mut reader = KeyReader::after(Family::EffectDedupe, &prefix, key)?;
    let parts = (reader.world()?, reader.intent()?);
    reader.end(parts)
}

/// All records of one world.
pub(crate) fn of_world(universe: UniverseId, world: WorldId) -> Span {
    KeyBuilder::universe(universe, Family::EffectDedupe).bytes(world.as_bytes()).key().span()
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    intent: IntentHash,
) -> Result<Option<EffectDedupe>, StoreError> {
    get(tx, Family::EffectDedupe, &key(universe, world, intent)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    intent: IntentHash,
    dedupe: &EffectDedupe,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, intent), dedupe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    /// Once effects were deduplicated by a hash that left out the world, and a fork's effect was swallowed.
    #[test]
    fn one_hash_in_two_worlds_is_two_effects() {
        let (intent, other) = (IntentHash::of(b"i"), WorldId::from_bytes([9; 16]));
        assert_ne!(key(laws::universe(), laws::world(), intent), key(laws::universe(), other, intent));
    }

    proptest! {
        #[test]
        fn keys_sort_by_world_then_intent(a in (laws::worlds(), laws::intents()), b in (laws::worlds(), laws::intents())) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |(world, intent)| key(universe, *world, *intent), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(at_ns: u64, which in 0..3u8, noise: Vec<u8>) {
            let status = match which {
                0 => EffectStatus::Pending,
                1 => EffectStatus::Cancelled,
                _ => EffectStatus::Complete(ReceiptStatus::Timeout),
            };
            laws::value_survives(Family::EffectDedupe, &EffectDedupe::new(status, at_ns), &noise)?;
            let by_hand = Some(Hash::of(&noise));
            laws::value_survives(Family::EffectDedupe, &EffectDedupe { by_hand, ..EffectDedupe::new(status, at_ns) }, &noise)?;
        }

        /// Two fields, as before there were operator's answers: what was remembered then can be read.
        #[test]
        fn an_answer_of_a_worker_is_stored_as_it_always_was(at_ns: u64) {
            let bytes = mundi_model::cbor::encode(&EffectDedupe::new(EffectStatus::Pending, at_ns));
            prop_assert_eq!(bytes[0], 0x82);
        }
    }
}
