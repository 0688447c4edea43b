//! `u/<u>/effects/pending/<shard>/<seq>`: intents that wait for an adapter.
//!
//! Written by `commit_turn`; moved to [`effect_inflight`](super::effect_inflight) by a claim, and back, under
//! the same sequence, when a claim runs out. Items are immutable. Scanned from [`low_water`](super::low_water).

use super::{Family, Key, KeyBuilder, KeyReader, Shard, Span, decode_value, queue::QueueSeq};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, IntentHash, UniverseId, WorldId, cbor, record::Payload};

/// What an adapter needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectItem {
    #[n(0)]
    pub world: WorldId,
    #[n(1)]
    pub intent: IntentHash,
    /// The height of the intent's record.
    #[n(2)]
    pub height: Height,
    #[n(3)]
    pub kind: String,
    #[n(4)]
    pub params: Payload,
    /// The program's own name for it.
    #[n(5)]
    pub label: String,
    /// What the policy that allowed it was, if one did.
    #[n(6)]
    pub policy_context: Option<Hash>,
    #[n(7)]
    pub published_at_ns: u64,
    /// W3C `traceparent`.
    #[n(8)]
    pub trace: Option<String>,
}

/// Where an intent's item lies.
pub fn shard(intent: IntentHash) -> Shard {
    Shard::of(intent.as_bytes())
}

pub fn key(universe: UniverseId, shard: Shard, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectPending).u8(shard.get()).bytes(seq.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::EffectPending).u8(shard.get()).key()
}

/// The items of a shard at or above a low-water mark.
pub fn from(universe: UniverseId, shard: Shard, mark: Option<QueueSeq>) -> Span {
    let all = prefix(universe, shard).span();
    match mark {
        Some(mark) => Span { start: key(universe, shard, mark), ..all },
        None => all,
    }
}

pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let mut reader = KeyReader::after(Family::EffectPending, &prefix(universe, shard), key)?;
    let seq = reader.queue_seq()?;
    reader.end(seq)
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<EffectItem, StoreError> {
    decode_value(Family::EffectPending, key, bytes)
}

/// Publishes an item, whose sequence is the stamp of this commit and its index among the items of it.
pub(crate) fn publish<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    index: u16,
    item: &EffectItem,
) -> Result<(), StoreError> {
    let prefix = prefix(universe, shard(item.intent));
    Ok(tx.put_stamped(prefix.as_bytes(), &index.to_be_bytes(), cbor::encode(item))?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    pub(crate) fn items() -> impl Strategy<Value = EffectItem> {
        (laws::worlds(), laws::intents(), laws::heights(), ".*", laws::payloads(), ".*", any::<u64>()).prop_map(
            |(world, intent, height, kind, params, label, published_at_ns)| EffectItem {
                world,
                intent,
                height,
                kind,
                params,
                label,
                policy_context: None,
                published_at_ns,
                trace: Some("t".into()),
            },
        )
    }

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in queue_seqs(), b in queue_seqs()) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            laws::keys_are_ordered((a, b), |seq| key(universe, shard, *seq), |key| parse(universe, shard, key))?;
        }

        #[test]
        fn the_value_survives(item in items(), noise: Vec<u8>) {
            laws::value_survives(Family::EffectPending, &item, &noise)?;
        }
    }
}
