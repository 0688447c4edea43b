//! `u/<u>/dead_letter/<queue>/<seq>`: what a queue gave up on, to be listed, inspected, replayed or dropped.
//!
//! Written when a retry budget is spent or a failure is not worth a retry; removed by people. Immutable.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, KeyReader,
    queue::{Queue, QueueSeq},
    queue_notify,
};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId, cbor};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeadLetter {
    #[n(0)]
    pub world: Option<WorldId>,
    /// The stable code of the last failure.
    #[n(1)]
    pub code: String,
    #[n(2)]
    pub reason: String,
    #[n(3)]
    pub attempts: u32,
    /// The item as the queue kept it.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    pub item: Vec<u8>,
    #[n(5)]
    pub at_ns: u64,
    /// The worker in whose mailbox it was, for a message.
    #[n(6)]
    pub worker: Option<WorkerId>,
}

pub fn key(universe: UniverseId, queue: Queue, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::DeadLetter).u8(queue as u8).bytes(seq.as_bytes()).key()
}

pub fn prefix(universe: UniverseId, queue: Queue) -> Key {
    KeyBuilder::universe(universe, Family::DeadLetter).u8(queue as u8).key()
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<(Queue, QueueSeq), StoreError> {
    let prefix = KeyBuilder::universe(universe, Family::DeadLetter).key();
    let mut reader = KeyReader::after(Family::DeadLetter, &prefix, key)?;
    let ordinal = reader.u8()?;
    let queue = Queue::from_ordinal(ordinal).ok_or_else(|| reader.bad())?;
    let parts = (queue, reader.queue_seq()?);
    reader.end(parts)
}

/// Adds a letter, in the order in which items were given up on.
pub fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    index: u16,
    letter: &DeadLetter,
) -> Result<(), StoreError> {
    queue_notify::bump(tx, universe, queue_notify::DEAD_LETTERS)?;
    Ok(tx.put_stamped(prefix(universe, queue).as_bytes(), &index.to_be_bytes(), cbor::encode(letter))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = (Queue, QueueSeq)> {
        (prop::sample::select(&Queue::ALL[..]), queue_seqs())
    }

    proptest! {
        #[test]
        fn keys_sort_by_queue_then_sequence(a in places(), b in places()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |(queue, seq)| key(universe, *queue, *seq), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(code: String, attempts: u32, item: Vec<u8>, at_ns: u64, noise: Vec<u8>) {
            let world = (attempts % 2 == 0).then(laws::world);
            let worker = WorkerId::new(at_ns);
            let letter = DeadLetter { world, code, reason: "why".into(), attempts, item, at_ns, worker };
            laws::value_survives(Family::DeadLetter, &letter, &noise)?;
        }
    }
}
