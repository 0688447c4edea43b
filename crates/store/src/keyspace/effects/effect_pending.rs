//! `u/<u>/effects/pending/<queue shard>/<seq>`: intents that wait for an adapter.
//!
//! Written by `commit_turn`, unless a slot is free at once; moved to [`effect_inflight`](crate::keyspace::effect_inflight) by a claim, and from there to
//! [`effect_retry`](crate::keyspace::effect_retry), never back: what is behind the first item stays empty. Items are immutable.
//! Scanned from [`low_water`](crate::keyspace::low_water).

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, QueueShard, Span, decode_value, queue::QueueSeq};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId, cbor, pool::LeaseId, record::Payload};

/// The item of an effect, for adapters.
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
    /// The policy that allowed it, if one did.
    #[n(6)]
    pub policy_context: Option<Hash>,
    #[n(7)]
    pub published_at_ns: u64,
    /// W3C `traceparent`.
    #[n(8)]
    pub trace: Option<String>,
    /// The manifest's terms for effects of this kind.
    #[n(9)]
    pub terms: EffectTerms,
    /// The correlation id of the event that led to it; its receipt carries it on.
    #[n(10)]
    pub correlation_id: Option<String>,
    /// The call that the program works for; its receipt carries it on.
    #[n(11)]
    pub call: Option<InboxSeq>,
    /// The lease under which it is carried out, and only while the lease is held.
    #[n(12)]
    pub lease: Option<EffectLease>,
}

/// A lease of a pool, as an effect names it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectLease {
    /// The name of the pool.
    #[n(0)]
    pub pool: String,
    /// The world of the shard that the lease lies in.
    #[n(1)]
    pub world: WorldId,
    #[n(2)]
    pub lease_id: LeaseId,
    #[n(3)]
    pub lease_epoch: u64,
}

impl EffectLease {
    /// The value of `Mundi-Lease`. The pool is part of it: a lease id is one of a pool.
    pub fn name(&self) -> String {
        format!("{}/{}", self.pool, self.lease_id)
    }
}

/// How an effect is carried out, as the manifest had it when it was asked for. It travels with the item, so that
/// whoever works on it, or finds its worker dead, need not load a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EffectTerms {
    /// How long one attempt may take.
    #[n(0)]
    pub timeout_ms: u64,
    #[n(1)]
    pub attempts_max: u32,
    /// The wait after the first failed attempt; it doubles with each further one.
    #[n(2)]
    pub backoff_ms: u64,
    #[n(3)]
    pub backoff_ms_max: u64,
    /// How often the world may have effects of this kind.
    #[n(4)]
    pub rate: Option<RateTerms>,
    /// Of a child: how many children of the world run at a time.
    #[n(5)]
    pub children_active_max: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RateTerms {
    #[n(0)]
    pub per_second: u32,
    #[n(1)]
    pub burst: u32,
}

impl Default for EffectTerms {
    /// For effects whose manifest says nothing: patient enough for a restart of the other side.
    fn default() -> Self {
        Self {
            timeout_ms: 30_000,
            attempts_max: 4,
            backoff_ms: 500,
            backoff_ms_max: 60_000,
            rate: None,
            children_active_max: None,
        }
    }
}

pub fn key(universe: UniverseId, queue_shard: QueueShard, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectPending).queue_shard(queue_shard).bytes(seq.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId, queue_shard: QueueShard) -> Key {
    KeyBuilder::universe(universe, Family::EffectPending).queue_shard(queue_shard).key()
}

/// The items of a queue shard at or above a low-water mark.
pub fn from(universe: UniverseId, queue_shard: QueueShard, mark: Option<QueueSeq>) -> Span {
    let all = prefix(universe, queue_shard).span();
    match mark {
        Some(mark) => Span { start: key(universe, queue_shard, mark), ..all },
        None => all,
    }
}

pub fn parse(universe: UniverseId, queue_shard: QueueShard, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let mut reader = KeyReader::after(Family::EffectPending, &prefix(universe, queue_shard), key)?;
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
    let prefix = prefix(universe, QueueShard::of(&item.kind, item.intent));
    Ok(tx.put_stamped(prefix.as_bytes(), &index.to_be_bytes(), cbor::encode(item))?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keyspace::{Shard, laws, queue::tests::queue_seqs};
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
                correlation_id: Some("c".into()),
                call: None,
                terms: EffectTerms { rate: Some(RateTerms { per_second: 3, burst: 2 }), ..EffectTerms::default() },
                lease: None,
            },
        )
    }

    proptest! {
        /// Ten fields, as before there were correlation ids: what was queued then can be read.
        #[test]
        fn an_item_without_a_correlation_id_is_stored_as_it_always_was(item in items()) {
            let item = EffectItem { correlation_id: None, ..item };
            let bytes = cbor::encode(&item);
            prop_assert_eq!(bytes[0], 0x8a);
            prop_assert_eq!(cbor::decode::<EffectItem>(&bytes).unwrap(), item);
        }

        #[test]
        fn keys_sort_by_sequence(a in queue_seqs(), b in queue_seqs()) {
            let (universe, queue_shard) = (laws::universe(), QueueShard::new("k", Shard::of(b"x")));
            laws::keys_are_ordered((a, b), |seq| key(universe, queue_shard, *seq), |key| parse(universe, queue_shard, key))?;
        }

        #[test]
        fn the_value_survives(item in items(), noise: Vec<u8>) {
            laws::value_survives(Family::EffectPending, &item, &noise)?;
        }
    }
}
