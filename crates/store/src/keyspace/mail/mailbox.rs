//! `u/<u>/mailboxes/<worker>/<due_ns>/<seq>`: messages to a worker.
//!
//! Written by `send_mail`; removed by `finish_mail`. Immutable: frames as they were sent. A message that is due at once
//! has the due time 0 if it is urgent and 1 if it is not, so those come first, in the order in which they were sent; later
//! ones wait for their time. The sequence comes from the order of commits, so it never restarts, not even when a mailbox
//! runs empty. Scanned from [`mail_mark`](crate::keyspace::mail_mark), class by class.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, mail_mark::MailClass, queue::QueueSeq};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{UniverseId, WorkerId};

/// The due time of a message that is due at once and comes before all others.
pub const URGENT_NS: u64 = 0;

/// The due time of any other message that is due at once.
pub const AT_ONCE_NS: u64 = 1;

/// Where a message lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailPlace {
    /// [`URGENT_NS`] or [`AT_ONCE_NS`] for a message that is due at once.
    pub due_ns: u64,
    pub seq: QueueSeq,
}

impl MailPlace {
    /// Whether the message waited for its time: a timer.
    pub const fn is_timed(&self) -> bool {
        self.due_ns > AT_ONCE_NS
    }
}

pub fn key(universe: UniverseId, worker: WorkerId, place: MailPlace) -> Key {
    from(universe, worker, place.due_ns).bytes(place.seq.as_bytes()).key()
}

fn from(universe: UniverseId, worker: WorkerId, due_ns: u64) -> KeyBuilder {
    KeyBuilder::universe(universe, Family::Mailbox).u64(worker.get()).u64(due_ns)
}

pub fn prefix(universe: UniverseId, worker: WorkerId) -> Key {
    KeyBuilder::universe(universe, Family::Mailbox).u64(worker.get()).key()
}

/// The messages of a class, from a mark on.
pub(crate) fn of_class(universe: UniverseId, worker: WorkerId, class: MailClass, mark: Option<MailPlace>) -> Span {
    let (first_ns, end) = match class {
        MailClass::Urgent => (URGENT_NS, from(universe, worker, AT_ONCE_NS).key()),
        MailClass::AtOnce => (AT_ONCE_NS, from(universe, worker, AT_ONCE_NS + 1).key()),
        MailClass::Timed => (AT_ONCE_NS + 1, prefix(universe, worker).span().end),
    };
    let start = mark.map_or_else(|| from(universe, worker, first_ns).key(), |mark| key(universe, worker, mark));
    Span { start, end }
}

pub fn parse(universe: UniverseId, worker: WorkerId, key: &[u8]) -> Result<MailPlace, StoreError> {
    let mut reader = KeyReader::after(Family::Mailbox, &prefix(universe, worker), key)?;
    let place = MailPlace { due_ns: reader.u64()?, seq: reader.queue_seq()? };
    reader.end(place)
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    (due_ns, index): (u64, u16),
    frame: Bytes,
) -> Result<(), StoreError> {
    let prefix = from(universe, worker, due_ns).key();
    Ok(tx.put_stamped(prefix.as_bytes(), &index.to_be_bytes(), frame)?)
}

/// `u/<u>/mailboxes/notify/<worker>`: rises with each message.
pub(crate) fn notify_key(universe: UniverseId, worker: WorkerId) -> Key {
    KeyBuilder::universe(universe, Family::MailboxNotify).u64(worker.get()).key()
}

/// The value of the counter, opaque. Read it before the mailbox: a message that is sent afterwards changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(Option<Bytes>);

pub(crate) async fn seen<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
) -> Result<Seen, StoreError> {
    Ok(Seen(tx.get_snapshot(notify_key(universe, worker).as_bytes()).await?))
}

pub(crate) fn bump<T: Transaction>(tx: &mut T, universe: UniverseId, worker: WorkerId) -> Result<(), StoreError> {
    Ok(tx.add(notify_key(universe, worker).as_bytes(), 1)?)
}

/// Completes once a message was sent since `seen`; perhaps earlier. Look, and wait again.
pub fn changed<E: Engine>(
    engine: &E,
    universe: UniverseId,
    worker: WorkerId,
    seen: Seen,
) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
    let (engine, key) = (engine.clone(), notify_key(universe, worker));
    async move { Ok(engine.watch(key.as_bytes(), seen.0).await?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = MailPlace> {
        (any::<u64>(), queue_seqs()).prop_map(|(due_ns, seq)| MailPlace { due_ns, seq })
    }

    proptest! {
        #[test]
        fn keys_sort_by_time_then_sequence(worker in laws::workers(), a in places(), b in places()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |place| key(universe, worker, *place), |key| parse(universe, worker, key))?;
        }
    }
}
