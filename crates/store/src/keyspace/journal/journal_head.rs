//! `u/<u>/w/<w>/journal/head`: the next height, the hash that the next record must name, and the last inbox item that the
//! journal has taken in.
//!
//! Written by every protocol that appends, and by `commit_cursor`. Height and cursor only rise. They share a key because nearly
//! every turn moves both.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, decode_value, get, get_snapshot, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, Height, InboxSeq, UniverseId, WorldId};

/// The end of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalHead {
    /// The next height to be written.
    pub height: Height,
    /// The hash of the record below it.
    pub chain: Hash,
}

/// How far a world has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub head: JournalHead,
    /// Nothing until the first item was taken in.
    pub cursor: Option<InboxSeq>,
}

impl Position {
    /// Of a world that has taken nothing in.
    pub fn new(head: JournalHead) -> Self {
        Self { head, cursor: None }
    }
}

#[derive(Debug, PartialEq, Eq, Encode, Decode)]
struct Stored {
    #[n(0)]
    height: Height,
    #[n(1)]
    chain: Hash,
    #[n(2)]
    cursor: Option<InboxSeq>,
}

impl Stored {
    fn position(self) -> Position {
        let Self { height, chain, cursor } = self;
        Position { head: JournalHead { height, chain }, cursor }
    }
}

pub fn key(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::JournalHead).key()
}

pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Position, StoreError> {
    decode_value(Family::JournalHead, key, bytes).map(Stored::position)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Position>, StoreError> {
    let stored: Option<Stored> = get(tx, Family::JournalHead, &key(universe, world)).await?;
    Ok(stored.map(Stored::position))
}

/// As [`read`], for a commit that does not depend on it: a position only moves forward.
pub(crate) async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Position>, StoreError> {
    let stored: Option<Stored> = get_snapshot(tx, Family::JournalHead, &key(universe, world)).await?;
    Ok(stored.map(Stored::position))
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    Position { head: JournalHead { height, chain }, cursor }: Position,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world), &Stored { height, chain, cursor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(height in laws::heights(), chain in laws::hashes(), cursor in prop::option::of(laws::seqs()), noise: Vec<u8>) {
            laws::value_survives(Family::JournalHead, &Stored { height, chain, cursor }, &noise)?;
        }
    }
}
