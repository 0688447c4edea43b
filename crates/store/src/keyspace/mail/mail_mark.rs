//! `u/<u>/mailboxes/low_water/<worker>/<class>`: below this place a class of a worker's messages holds nothing.
//!
//! Raised by `claim_mail`. Free. Messages that are due at once come in the order of commits, so nothing ever appears below
//! one that was seen, and their mark needs no conflict. One with a time may be sent for a time that has passed: its sender
//! reads the mark with a conflict and places it there, and who raises the mark reads what lies below with one.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, get_snapshot, mailbox::MailPlace, put, queue::QueueSeq};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId};

/// The first place at which something may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct MailMark {
    #[n(0)]
    pub due_ns: u64,
    #[n(1)]
    pub seq: QueueSeq,
}

impl From<MailPlace> for MailMark {
    fn from(MailPlace { due_ns, seq }: MailPlace) -> Self {
        Self { due_ns, seq }
    }
}

impl From<MailMark> for MailPlace {
    fn from(MailMark { due_ns, seq }: MailMark) -> Self {
        Self { due_ns, seq }
    }
}

/// A class of messages that is read on its own: each at-once class, and everything with a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MailClass {
    Urgent = 0,
    AtOnce = 1,
    Timed = 2,
}

impl MailClass {
    pub const ALL: [Self; 3] = [Self::Urgent, Self::AtOnce, Self::Timed];
}

pub fn key(universe: UniverseId, worker: WorkerId, class: MailClass) -> Key {
    KeyBuilder::universe(universe, Family::MailMark).u64(worker.get()).u8(class as u8).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    class: MailClass,
) -> Result<Option<MailMark>, StoreError> {
    get(tx, Family::MailMark, &key(universe, worker, class)).await
}

/// As [`read`], for those who only look: adds no conflict.
pub(crate) async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    class: MailClass,
) -> Result<Option<MailMark>, StoreError> {
    get_snapshot(tx, Family::MailMark, &key(universe, worker, class)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    class: MailClass,
    mark: MailMark,
) -> Result<(), StoreError> {
    put(tx, &key(universe, worker, class), &mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(due_ns: u64, seq in queue_seqs(), noise: Vec<u8>) {
            laws::value_survives(Family::MailMark, &MailMark { due_ns, seq }, &noise)?;
        }
    }
}
