//! `u/<u>/mailboxes/dedupe/<worker>/name/<hash>` and `.../end/<expires_at_ns>/<hash>`: messages that are sent at most once.
//!
//! Written by `send_mail` for messages that ask for it, and with a later end by `finish_mail` when one is put off; removed by later sends, a few at a time, once their window is over. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, WorkerId};

const NAME: u8 = 0;
const END: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct MailDedupe {
    #[n(0)]
    pub expires_at_ns: u64,
}

fn of(universe: UniverseId, worker: WorkerId, what: u8) -> KeyBuilder {
    KeyBuilder::universe(universe, Family::MailDedupe).u64(worker.get()).u8(what)
}

pub fn key(universe: UniverseId, worker: WorkerId, name: Hash) -> Key {
    of(universe, worker, NAME).bytes(name.as_bytes()).key()
}

fn end_key(universe: UniverseId, worker: WorkerId, expires_at_ns: u64, name: Hash) -> Key {
    of(universe, worker, END).u64(expires_at_ns).bytes(name.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    name: Hash,
) -> Result<Option<MailDedupe>, StoreError> {
    get(tx, Family::MailDedupe, &key(universe, worker, name)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    name: Hash,
    expires_at_ns: u64,
) -> Result<(), StoreError> {
    put(tx, &key(universe, worker, name), &MailDedupe { expires_at_ns })?;
    Ok(tx.put(end_key(universe, worker, expires_at_ns, name).as_bytes(), Vec::new())?)
}

/// Forgets some of those whose window is over.
pub(crate) async fn expire<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    worker: WorkerId,
    now_ns: u64,
    items_max: usize,
) -> Result<(), StoreError> {
    let start = of(universe, worker, END).key();
    let over = Span { start: start.clone(), end: of(universe, worker, END).u64(now_ns).key() };
    for (key, _) in tx.range(over.read(items_max).snapshot()).await?.items {
        let mut reader = KeyReader::after(Family::MailDedupe, &start, &key)?;
        let (expires_at_ns, name) = (reader.u64()?, reader.hash()?);
        // It may have been sent again since, under a later end.
        if read(tx, universe, worker, name).await? == Some(MailDedupe { expires_at_ns }) {
            tx.delete(self::key(universe, worker, name).as_bytes())?;
        }
        tx.delete(&key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(expires_at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::MailDedupe, &MailDedupe { expires_at_ns }, &noise)?;
        }
    }
}
