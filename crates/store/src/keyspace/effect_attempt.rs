//! `u/<u>/effects/attempts/<shard>/<seq>`: how often an intent was tried, and when it may be tried again.
//!
//! Written when a claim is given back or runs out, or a rate limit defers the intent; removed with the item. Attempts are monotonic: a requeue
//! writes here and does not reorder the item.

use super::{Family, Key, KeyBuilder, KeyReader, Shard, get, put, queue::QueueSeq};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct EffectAttempts {
    #[n(0)]
    pub attempts: u32,
    #[n(1)]
    pub not_before_ns: u64,
    /// The stable code of the last failure.
    #[n(2)]
    pub last_failure: Option<String>,
    /// It waits only for its turn under a rate limit, and need not ask for one again.
    #[n(3)]
    pub granted: bool,
}

pub fn key(universe: UniverseId, shard: Shard, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::EffectAttempt).u8(shard.get()).bytes(seq.as_bytes()).key()
}

pub fn parse(universe: UniverseId, shard: Shard, key: &[u8]) -> Result<QueueSeq, StoreError> {
    let prefix = KeyBuilder::universe(universe, Family::EffectAttempt).u8(shard.get()).key();
    let mut reader = KeyReader::after(Family::EffectAttempt, &prefix, key)?;
    let seq = reader.queue_seq()?;
    reader.end(seq)
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    shard: Shard,
    seq: QueueSeq,
) -> Result<Option<EffectAttempts>, StoreError> {
    get(tx, Family::EffectAttempt, &key(universe, shard, seq)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    shard: Shard,
    seq: QueueSeq,
    attempts: &EffectAttempts,
) -> Result<(), StoreError> {
    put(tx, &key(universe, shard, seq), attempts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in queue_seqs(), b in queue_seqs()) {
            let (universe, shard) = (laws::universe(), Shard::of(b"x"));
            laws::keys_are_ordered((a, b), |seq| key(universe, shard, *seq), |key| parse(universe, shard, key))?;
        }

        #[test]
        fn the_value_survives(attempts: u32, not_before_ns: u64, last_failure: Option<String>, noise: Vec<u8>) {
            let value = EffectAttempts { attempts, not_before_ns, last_failure, granted: attempts % 2 == 0 };
            laws::value_survives(Family::EffectAttempt, &value, &noise)?;
        }
    }
}
