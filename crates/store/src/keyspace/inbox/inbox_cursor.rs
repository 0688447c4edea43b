//! `u/<u>/w/<w>/inbox/cursor`: the last item that the journal has taken in, of a world that has taken none in since the cursor
//! moved to `journal/head`.
//!
//! Not written any more.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get};
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

pub(in crate::keyspace) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<InboxSeq>, StoreError> {
    let cursor: Option<InboxCursor> = get(tx, Family::InboxCursor, &key(universe, world)).await?;
    Ok(cursor.map(|cursor| cursor.seq))
}

#[cfg(test)]
pub(in crate::keyspace) fn bytes(seq: InboxSeq) -> Vec<u8> {
    mundi_model::cbor::encode(&InboxCursor { seq })
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
