//! `u/<u>/effects/inflight/<queue shard>/<seq>`: intents that an adapter works on.
//!
//! Written by a claim, or by `commit_turn` for an adapter of the same process; removed by an acknowledgement, or by the reaper once the claim expired, either of which
//! compares the claim's token first. Free. The reaper scans it from [`low_water`](crate::keyspace::low_water).
//!
//! Of an effect that its world has put into a slot this is all that is stored: what becomes of it has a key of its own
//! ([`effect_dedupe`](crate::keyspace::effect_dedupe)) only once it is withdrawn, or somebody else has to do with it.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, KeyReader, QueueShard, Span, decode_value,
    effect_dedupe::EffectStatus,
    effect_pending::EffectItem,
    queue::{Claim, QueueSeq},
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, cbor};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectInflight {
    #[n(0)]
    pub claim: Claim,
    #[n(1)]
    pub item: EffectItem,
    /// The state of the intent, unless a key of its own holds it; `None` if there is such a key.
    #[n(2)]
    pub status: Option<EffectStatus>,
}

impl EffectInflight {
    /// Whether only its world and the slot that it was published into know of it.
    pub(crate) fn is_in_slot(&self) -> bool {
        self.status.is_some()
    }
}

pub fn key(universe: UniverseId, queue_shard: QueueShard, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).queue_shard(queue_shard).bytes(seq.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, queue_shard: QueueShard) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).queue_shard(queue_shard).key()
}

/// The claims of a queue shard at or above a low-water mark.
pub fn from(universe: UniverseId, queue_shard: QueueShard, mark: Option<QueueSeq>) -> Span {
    let all = prefix(universe, queue_shard).span();
    match mark {
        Some(mark) => Span { start: key(universe, queue_shard, mark), ..all },
        None => all,
    }
}

/// Publishes an item that is claimed from the start; its sequence is that of [`effect_pending::publish`](crate::keyspace::effect_pending::publish),
/// and its `status` stands here, unless it has a key of its own.
pub(crate) fn publish<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    index: u16,
    claim: &Claim,
    item: &EffectItem,
    status: Option<EffectStatus>,
) -> Result<(), StoreError> {
    let prefix = prefix(universe, QueueShard::of(&item.kind, item.intent));
    Ok(tx.put_stamped(prefix.as_bytes(), &index.to_be_bytes(), encode(claim, item, status))?)
}

/// As an [`EffectInflight`] of all three.
fn encode(claim: &Claim, item: &EffectItem, status: Option<EffectStatus>) -> Vec<u8> {
    match status {
        Some(status) => cbor::encode(&(claim, item, status)),
        None => cbor::encode(&(claim, item)),
    }
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<EffectInflight, StoreError> {
    decode_value(Family::EffectInflight, key, bytes)
}

pub fn parse(universe: UniverseId, queue_shard: QueueShard, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let mut reader = KeyReader::after(Family::EffectInflight, &prefix(universe, queue_shard), key)?;
    let seq = reader.queue_seq()?;
    reader.end(seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{
        Shard,
        effect_pending::tests::items,
        laws,
        queue::tests::{claims, queue_seqs},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in queue_seqs(), b in queue_seqs()) {
            let (universe, queue_shard) = (laws::universe(), QueueShard::new("k", Shard::of(b"x")));
            laws::keys_are_ordered((a, b), |seq| key(universe, queue_shard, *seq), |key| parse(universe, queue_shard, key))?;
        }

        #[test]
        fn its_parts_are_encoded_as_the_value_is(claim in claims(), item in items(), in_slot: bool) {
            let status = in_slot.then_some(EffectStatus::Pending);
            prop_assert_eq!(encode(&claim, &item, status), cbor::encode(&EffectInflight { claim, item, status }));
        }

        /// Two fields, as before claims had a status: what was claimed then can be read.
        #[test]
        fn a_claim_without_a_status_is_stored_as_it_always_was(claim in claims(), item in items()) {
            let held = EffectInflight { claim, item, status: None };
            let bytes = cbor::encode(&held);
            prop_assert_eq!(bytes[0], 0x82);
            prop_assert_eq!(cbor::decode::<EffectInflight>(&bytes).unwrap(), held);
        }

        #[test]
        fn the_value_survives(claim in claims(), item in items(), in_slot: bool, noise: Vec<u8>) {
            let status = in_slot.then_some(EffectStatus::Pending);
            laws::value_survives(Family::EffectInflight, &EffectInflight { claim, item, status }, &noise)?;
        }
    }
}
