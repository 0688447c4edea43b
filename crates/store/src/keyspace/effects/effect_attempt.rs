//! `u/<u>/effects/attempts/<shard>/<seq>`: how often an intent was tried, and when it may be tried again.
//!
//! Written when a claim is released or expires, or a rate limit defers the intent; removed with the item. Attempts are monotonic: a requeue
//! writes here and does not reorder the item.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Shard, get, put, queue::QueueSeq};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, limits};

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
    /// The newest attempts that failed, the oldest first: a bounded number, for people. `None` if there are none.
    #[n(4)]
    pub failed: Option<Vec<FailedAttempt>>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FailedAttempt {
    /// The first one is 1.
    #[n(0)]
    pub attempt: u32,
    #[n(1)]
    pub at_ns: u64,
    /// The worker that had claimed it.
    #[n(2)]
    pub worker: WorkerId,
    #[n(3)]
    pub code: String,
    #[n(4)]
    pub reason: String,
    /// When the next attempt may begin; 0 if there is none.
    #[n(5)]
    pub next_ns: u64,
}

impl EffectAttempts {
    /// The record after a further attempt failed.
    pub(crate) fn after(before: Option<Self>, failed: FailedAttempt) -> Self {
        let FailedAttempt { attempt: attempts, next_ns: not_before_ns, .. } = failed;
        let last_failure = Some(failed.code.clone());
        let mut kept = before.and_then(|before| before.failed).unwrap_or_default();
        kept.push(failed);
        kept.drain(..kept.len().saturating_sub(limits::EFFECT_ATTEMPTS_KEPT_MAX));
        Self { attempts, not_before_ns, last_failure, granted: false, failed: Some(kept) }
    }
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
            let value = EffectAttempts { attempts, not_before_ns, last_failure, granted: attempts % 2 == 0, failed: None };
            let worker = WorkerId::new(1).unwrap();
            let failed = |attempt| FailedAttempt { attempt, at_ns: 1, worker, code: "C".into(), reason: "r".into(), next_ns: 2 };
            let many = (1..=30).fold(value.clone(), |before, attempt| EffectAttempts::after(Some(before), failed(attempt)));
            let kept: Vec<_> = many.failed.iter().flatten().map(|failed| failed.attempt).collect();
            prop_assert_eq!(kept, (21..=30).collect::<Vec<_>>());
            laws::value_survives(Family::EffectAttempt, &many, &noise)?;
            laws::value_survives(Family::EffectAttempt, &value, &noise)?;
        }
    }
}
