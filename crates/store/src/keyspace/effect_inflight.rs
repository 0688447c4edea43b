//! `u/<u>/effects/inflight/<lane>/<seq>`: intents that an adapter works on.
//!
//! Written by a claim, or by `commit_turn` for an adapter of the same process; removed by an acknowledgement, or by the reaper once the claim ran out, either of which
//! compares the claim's token first. Free. The reaper scans it from [`low_water`](super::low_water).

use super::{
    Family, Key, KeyBuilder, KeyReader, Lane, Span, decode_value,
    effect_pending::EffectItem,
    queue::{Claim, QueueSeq},
};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, cbor};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EffectInflight {
    #[n(0)]
    pub claim: Claim,
    #[n(1)]
    pub item: EffectItem,
}

pub fn key(universe: UniverseId, lane: Lane, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).lane(lane).bytes(seq.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, lane: Lane) -> Key {
    KeyBuilder::universe(universe, Family::EffectInflight).lane(lane).key()
}

/// The claims of a lane at or above a low-water mark.
pub fn from(universe: UniverseId, lane: Lane, mark: Option<QueueSeq>) -> Span {
    let all = prefix(universe, lane).span();
    match mark {
        Some(mark) => Span { start: key(universe, lane, mark), ..all },
        None => all,
    }
}

/// Publishes an item that is claimed from the start; its sequence is that of [`effect_pending::publish`](super::effect_pending::publish).
pub(crate) fn publish<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    index: u16,
    claim: &Claim,
    item: &EffectItem,
) -> Result<(), StoreError> {
    let prefix = prefix(universe, Lane::of(&item.kind, item.intent));
    tx.expect(prefix.as_bytes()); // whoever answers it, in this process, asks whether the claim is held
    Ok(tx.put_stamped(prefix.as_bytes(), &index.to_be_bytes(), encode(claim, item))?)
}

/// As an [`EffectInflight`] of both.
fn encode(claim: &Claim, item: &EffectItem) -> Vec<u8> {
    cbor::encode(&(claim, item))
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<EffectInflight, StoreError> {
    decode_value(Family::EffectInflight, key, bytes)
}

pub fn parse(universe: UniverseId, lane: Lane, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let mut reader = KeyReader::after(Family::EffectInflight, &prefix(universe, lane), key)?;
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
            let (universe, lane) = (laws::universe(), Lane::new("k", Shard::of(b"x")));
            laws::keys_are_ordered((a, b), |seq| key(universe, lane, *seq), |key| parse(universe, lane, key))?;
        }

        #[test]
        fn claim_and_item_are_encoded_as_the_value_is(claim in claims(), item in items()) {
            prop_assert_eq!(encode(&claim, &item), cbor::encode(&EffectInflight { claim, item }));
        }

        #[test]
        fn the_value_survives(claim in claims(), item in items(), noise: Vec<u8>) {
            laws::value_survives(Family::EffectInflight, &EffectInflight { claim, item }, &noise)?;
        }
    }
}
