//! `u/<u>/queues/low_water/<queue>/<queue shard>`: below this place a queue shard of a queue holds nothing.
//!
//! Written by whoever takes from the queue shard, once it has seen that all below is gone; and by a claim that enters below
//! the reaper's mark, which lowers it in the same transaction. Free. Without it a scan would walk over the tombstones
//! of everything that was ever queued.
//!
//! A queue in which something can appear below what was seen keeps its mark right by conflict: who raises it reads the
//! span below with a conflict (`raise`), and who puts something in reads the mark with one ([`read`]).

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, QueueShard, Span, get, get_snapshot, put,
    queue::{Queue, QueueSeq},
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum LowWater {
    /// For queues in order of publication.
    #[n(0)]
    Seq(#[n(0)] QueueSeq),
    /// For queues in order of time.
    #[n(1)]
    TimeNs(#[n(0)] u64),
}

pub fn key(universe: UniverseId, queue: Queue, queue_shard: QueueShard) -> Key {
    KeyBuilder::universe(universe, Family::LowWater).u8(queue as u8).queue_shard(queue_shard).key()
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    queue_shard: QueueShard,
) -> Result<Option<LowWater>, StoreError> {
    get(tx, Family::LowWater, &key(universe, queue, queue_shard)).await
}

/// As [`read`], for those who only look: adds no conflict.
pub async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    queue_shard: QueueShard,
) -> Result<Option<LowWater>, StoreError> {
    get_snapshot(tx, Family::LowWater, &key(universe, queue, queue_shard)).await
}

pub fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    queue_shard: QueueShard,
    mark: &LowWater,
) -> Result<(), StoreError> {
    put(tx, &key(universe, queue, queue_shard), mark)
}

/// Raises a mark once more after a look at what lies below the new one; says whether nothing did.
pub(crate) async fn raise<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    queue_shard: QueueShard,
    below: &Span,
    mark: &LowWater,
) -> Result<bool, StoreError> {
    let empty = tx.range(below.read(1)).await?.items.is_empty();
    if empty {
        write(tx, universe, queue, queue_shard, mark)?;
    }
    Ok(empty)
}

impl LowWater {
    pub(crate) fn seq(mark: Option<Self>) -> Option<QueueSeq> {
        match mark {
            Some(Self::Seq(seq)) => Some(seq),
            _ => None,
        }
    }

    /// The time from which on a queue in order of time is read.
    pub(crate) fn time_ns(mark: Option<Self>) -> u64 {
        match mark {
            Some(Self::TimeNs(ns)) => ns,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(seq in queue_seqs(), time_ns: u64, noise: Vec<u8>) {
            for mark in [LowWater::Seq(seq), LowWater::TimeNs(time_ns)] {
                laws::value_survives(Family::LowWater, &mark, &noise)?;
            }
        }
    }
}
