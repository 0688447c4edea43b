//! `u/<u>/timers/inflight/<shard>/<intent_hash>`: timers that a timer worker delivers.
//!
//! Written by a claim; removed by the delivery, or by the reaper once the claim ran out, either of which compares
//! the claim's token first. Free.

use super::{Family, Key, KeyBuilder, KeyReader, Shard, queue::Claim, timer_due::TimerItem};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_model::{IntentHash, UniverseId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TimerInflight {
    #[n(0)]
    pub claim: Claim,
    #[n(1)]
    pub item: TimerItem,
}

pub fn key(universe: UniverseId, shard: Shard, intent: IntentHash) -> Key {
    KeyBuilder::universe(universe, Family::TimerInflight).u8(shard.get()).bytes(intent.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::TimerInflight).u8(shard.get()).key()
}

pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<IntentHash, StoreError> {
    let mut reader = KeyReader::after(Family::TimerInflight, &prefix(universe, shard), key)?;
    let intent = reader.intent()?;
    reader.end(intent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::claims};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_intent(a in laws::intents(), b in laws::intents()) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            laws::keys_are_ordered((a, b), |intent| key(universe, shard, *intent), |key| parse(universe, shard, key))?;
        }

        #[test]
        fn the_value_survives(
            claim in claims(),
            world in laws::worlds(),
            intent in laws::intents(),
            height in laws::heights(),
            payload in laws::payloads(),
            noise: Vec<u8>,
        ) {
            let item = TimerItem { world, intent, height, deliver_at_ns: 5, payload, published_at_ns: 4 };
            laws::value_survives(Family::TimerInflight, &TimerInflight { claim, item }, &noise)?;
        }
    }
}
