//! `u/<u>/w/<w>/inbox/cursor`: the last item that the journal has taken in.
//!
//! Written by `commit_turn`, `drain_inbox` and `commit_cursor`. Monotonic. Absent until the first item was taken.

use super::{Family, Key, KeyBuilder, decode_value, get, put};
use crate::StoreError;
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{InboxSeq, UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct InboxCursor {
    #[n(0)]
    seq: InboxSeq,
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::InboxCursor).key()
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<InboxSeq, StoreError> {
    decode_value(Family::InboxCursor, key, bytes).map(|cursor: InboxCursor| cursor.seq)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<InboxSeq>, StoreError> {
    let cursor: Option<InboxCursor> = get(tx, Family::InboxCursor, &key(universe, world)).await?;
    Ok(cursor.map(|cursor| cursor.seq))
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    seq: InboxSeq,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), &InboxCursor { seq })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(seq in laws::seqs(), noise: Vec<u8>) {
            laws::value_survives(Family::InboxCursor, &InboxCursor { seq }, &noise)?;
        }
    }
}
