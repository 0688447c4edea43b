//! `u/<u>/queues/low_water/<queue>/<shard>`: below this place a shard of a queue holds nothing.
//!
//! Written by whoever claims from the shard, now and then, once it has seen that all below is gone; and by a
//! requeue that puts an item back below it, which lowers it in the same transaction. Free. Without it a scan
//! would walk over the tombstones of everything that was ever queued.

use super::{
    Family, Key, KeyBuilder, Shard, get, put,
    queue::{Queue, QueueSeq},
};
use crate::StoreError;
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

pub fn key(universe: UniverseId, queue: Queue, shard: Shard) -> Key {
    KeyBuilder::universe(universe, Family::LowWater).u8(queue as u8).u8(shard.get()).key()
}

pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    shard: Shard,
) -> Result<Option<LowWater>, StoreError> {
    get(tx, Family::LowWater, &key(universe, queue, shard)).await
}

pub fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    shard: Shard,
    mark: &LowWater,
) -> Result<(), StoreError> {
    put(tx, &key(universe, queue, shard), mark)
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
