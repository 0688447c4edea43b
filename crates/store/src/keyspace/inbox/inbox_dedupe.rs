//! `u/<u>/w/<w>/inbox/dedupe/<id>/<seq>`: that something was enqueued under a name, and where.
//!
//! Written by `enqueue` for senders that name what they send: messages of other worlds,
//! receipts, timers, callers with an idempotency key. Removed after its window, through
//! [`dedupe_bucket`](crate::keyspace::dedupe_bucket). The name of a message says which effects send it, and stays
//! for as long as one of them is open, whatever its window: each effect that finds the name of another one, which only a chosen name can be, is
//! added. Otherwise immutable.
//!
//! The sequence is known only at commit, so it is in the key, filled in by the engine. Two senders of one
//! name both read this range as empty and both write into it: the second one conflicts.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, QueueShard, Shard, decode_value, queue::QueueSeq};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, InboxSeq, IntentHash, UniverseId, WorldId, cbor};

/// The name under which something is enqueued at most once into one world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DedupeId(Hash);

impl DedupeId {
    /// A message that another world sends, named by its intent.
    pub fn message(intent: IntentHash) -> Self {
        Self(Hash::of_parts([&b"message:"[..], intent.as_bytes()]))
    }

    /// A message that another world sends under a name that it chose.
    pub fn chosen_message(id: Hash) -> Self {
        Self(Hash::of_parts([&b"chosen message:"[..], id.as_bytes()]))
    }

    /// The terminal receipt of an intent.
    pub fn receipt(intent: IntentHash) -> Self {
        Self(Hash::of_parts([&b"receipt:"[..], intent.as_bytes()]))
    }

    /// The firing of a timer.
    pub fn timer(intent: IntentHash) -> Self {
        Self(Hash::of_parts([&b"timer:"[..], intent.as_bytes()]))
    }

    /// A name that a caller chose.
    pub fn idempotency_key(key: &str) -> Self {
        Self(Hash::of_parts([&b"key:"[..], key.as_bytes()]))
    }

    pub(crate) fn from_hash(hash: Hash) -> Self {
        Self(hash)
    }

    pub(crate) fn as_hash(&self) -> Hash {
        self.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct InboxDedupe {
    #[n(0)]
    expires_at_ns: u64,
    #[n(1)]
    sent_by: Option<SendingEffect>,
    /// Effects that sent the same later; at most `MESSAGE_SENDERS_MAX` with the first one.
    #[n(2)]
    also_sent_by: Option<Vec<SendingEffect>>,
}

/// The effect that sends a message, and where it was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SendingEffect {
    #[n(0)]
    pub(crate) universe: UniverseId,
    #[n(1)]
    pub(crate) world: WorldId,
    #[n(2)]
    pub(crate) intent: IntentHash,
    /// Of the queue shard, whose shard follows from the intent.
    #[n(3)]
    kind: u64,
    #[n(4)]
    pub(crate) seq: QueueSeq,
}

impl SendingEffect {
    pub(crate) fn new(
        universe: UniverseId,
        queue_shard: QueueShard,
        seq: QueueSeq,
        world: WorldId,
        intent: IntentHash,
    ) -> Self {
        Self { universe, world, intent, kind: queue_shard.kind, seq }
    }

    /// Whether it is the same effect, perhaps at another attempt.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.universe, self.world, self.intent) == (other.universe, other.world, other.intent)
    }

    pub(crate) fn queue_shard(&self) -> QueueShard {
        QueueShard { kind: self.kind, shard: Shard::of(self.intent.as_bytes()) }
    }
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId, id: DedupeId) -> Key {
    KeyBuilder::world(universe, world, Family::InboxDedupe).bytes(id.0.as_bytes()).key()
}

fn parse(universe: UniverseId, world: WorldId, id: DedupeId, key: &[u8]) -> Result<InboxSeq, StoreError> {
    let mut reader = KeyReader::after(Family::InboxDedupe, &prefix(universe, world, id), key)?;
    let seq = reader.seq()?;
    reader.end(seq)
}

/// Where it was enqueued before, if it was.
pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    id: DedupeId,
) -> Result<Option<InboxSeq>, StoreError> {
    let page = tx.range(prefix(universe, world, id).span().read(1)).await?;
    page.items.first().map(|(key, _)| parse(universe, world, id, key)).transpose()
}

/// A name that is stored, with the effects that send what was enqueued under it: none unless it is a message.
pub(crate) struct Known {
    key: Bytes,
    expires_at_ns: u64,
    pub(crate) senders: Vec<SendingEffect>,
}

/// The commit depends on it.
pub(crate) async fn known<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    id: DedupeId,
) -> Result<Option<Known>, StoreError> {
    let page = tx.range(prefix(universe, world, id).span().read(1)).await?;
    let Some((key, bytes)) = page.items.first() else { return Ok(None) };
    let InboxDedupe { expires_at_ns, sent_by, also_sent_by } = decode_value(Family::InboxDedupe, key, bytes)?;
    let senders = sent_by.into_iter().chain(also_sent_by.into_iter().flatten()).collect();
    Ok(Some(Known { key: key.clone(), expires_at_ns, senders }))
}

/// Stores a name again, with other senders.
pub(crate) fn rewrite<T: Transaction>(tx: &mut T, known: &Known) -> Result<(), StoreError> {
    let (first, others) = known.senders.split_first().map_or((None, &[][..]), |(first, others)| (Some(*first), others));
    let also_sent_by = (!others.is_empty()).then(|| others.to_vec());
    let record = InboxDedupe { expires_at_ns: known.expires_at_ns, sent_by: first, also_sent_by };
    Ok(tx.put(&known.key, cbor::encode(&record))?)
}

/// Remembers that the item at `index` of this commit was enqueued under a name.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    id: DedupeId,
    index: u16,
    expires_at_ns: u64,
    sent_by: Option<SendingEffect>,
) -> Result<(), StoreError> {
    let value = cbor::encode(&InboxDedupe { expires_at_ns, sent_by, also_sent_by: None });
    Ok(tx.put_stamped(prefix(universe, world, id).as_bytes(), &index.to_be_bytes(), value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    #[test]
    fn names_of_different_senders_never_meet() {
        let intent = IntentHash::of(b"i");
        let ids = [DedupeId::message(intent), DedupeId::receipt(intent), DedupeId::timer(intent)];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in laws::seqs(), b in laws::seqs()) {
            let (universe, world, id) = (laws::universe(), laws::world(), DedupeId::idempotency_key("k"));
            let key = |seq: &InboxSeq| {
                let key = KeyBuilder::world(universe, world, Family::InboxDedupe).bytes(id.0.as_bytes());
                key.bytes(seq.as_bytes()).key()
            };
            laws::keys_are_ordered((a, b), key, |key| parse(universe, world, id, key))?;
        }

        #[test]
        fn the_value_survives(
            expires_at_ns: u64,
            seq in queue_seqs(),
            world in laws::worlds(),
            hash in laws::hashes(),
            is_message: bool,
            others in 0..3_usize,
            noise: Vec<u8>,
        ) {
            let intent = IntentHash::from_bytes(*hash.as_bytes());
            let queue_shard = QueueShard::of("fabric.send", intent);
            let effect = SendingEffect::new(laws::universe(), queue_shard, seq, world, intent);
            prop_assert_eq!(effect.queue_shard(), queue_shard);
            let sent_by = is_message.then_some(effect);
            let also_sent_by = (others > 0).then(|| vec![effect; others]);
            laws::value_survives(Family::InboxDedupe, &InboxDedupe { expires_at_ns, sent_by, also_sent_by }, &noise)?;
        }
    }
}
