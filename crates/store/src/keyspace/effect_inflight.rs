//! `u/<u>/effects/inflight/<shard>/<seq>`: intents that an adapter works on.
//!
//! Written by a claim; removed by an acknowledgement, or by the reaper once the claim ran out, either of which
//! compares the claim's token first. Free.

use super::{
    Family, Key, KeyBuilder, KeyReader, Shard,
    effect_pending::EffectItem,
    queue::{Claim, QueueSeq},
};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_model::UniverseId;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectInflight {
    #[n(0)]
    pub claim: Claim,
    #[n(1)]
    pub item: EffectItem,
}

pub fn key(universe: UniverseId, shard: Shard, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).u8(shard.get()).bytes(seq.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).u8(shard.get()).key()
}

pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let mut reader = KeyReader::after(Family::EffectInflight, &prefix(universe, shard), key)?;
    let seq = reader.queue_seq()?;
    reader.end(seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{
        effect_pending::tests::items,
        laws,
        queue::tests::{claims, queue_seqs},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in queue_seqs(), b in queue_seqs()) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            laws::keys_are_ordered((a, b), |seq| key(universe, shard, *seq), |key| parse(universe, shard, key))?;
        }

        #[test]
        fn the_value_survives(claim in claims(), item in items(), noise: Vec<u8>) {
            laws::value_survives(Family::EffectInflight, &EffectInflight { claim, item }, &noise)?;
        }
    }
}
