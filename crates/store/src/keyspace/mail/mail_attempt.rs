//! `u/<u>/mailboxes/attempts/<worker>/<seq>`: who works on a message, and how often it was tried.
//!
//! Written by `claim_mail` and `finish_mail`; removed with the message. The message itself keeps its place permanently. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put, queue::Claim, queue::QueueSeq};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct MailAttempt {
    /// Its `attempt` says how often the message was claimed.
    #[n(0)]
    pub claim: Claim,
    /// Whether the claim still stands; a requeue ends it.
    #[n(1)]
    pub open: bool,
    #[n(2)]
    pub not_before_ns: u64,
}

pub fn key(universe: UniverseId, worker: WorkerId, seq: QueueSeq) -> Key {
    KeyBuilder::universe(universe, Family::MailAttempt).u64(worker.get()).bytes(seq.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    seq: QueueSeq,
) -> Result<Option<MailAttempt>, StoreError> {
    get(tx, Family::MailAttempt, &key(universe, worker, seq)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    seq: QueueSeq,
    attempt: &MailAttempt,
) -> Result<(), StoreError> {
    put(tx, &key(universe, worker, seq), attempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::claims};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(claim in claims(), open: bool, not_before_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::MailAttempt, &MailAttempt { claim, open, not_before_ns }, &noise)?;
        }
    }
}
