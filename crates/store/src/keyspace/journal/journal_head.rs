//! `u/<u>/w/<w>/journal/head`: the next height, the hash that the next record must name, and the last inbox item that the
//! journal has taken in.
//!
//! Written by every protocol that appends, and by `commit_cursor`. Height and cursor only rise. They share a key because nearly
//! every turn moves both; before they did, the cursor had one of its own ([`inbox_cursor`]).

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, decode_value, get, get_snapshot, inbox_cursor, put};
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
    let Some(mut position) = stored.map(Stored::position) else { return Ok(None) };
    if position.cursor.is_none() {
        position.cursor = inbox_cursor::read(tx, universe, world).await?;
    }
    Ok(Some(position))
}

/// As [`read`], for a commit that does not depend on it: a position only moves forward.
pub(crate) async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<Option<Position>, StoreError> {
    let stored: Option<Stored> = get_snapshot(tx, Family::JournalHead, &key(universe, world)).await?;
    let Some(mut position) = stored.map(Stored::position) else { return Ok(None) };
    if position.cursor.is_none() {
        position.cursor = inbox_cursor::read(tx, universe, world).await?;
    }
    Ok(Some(position))
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
    use mundi_engine::{Engine, Memory};
    use proptest::prelude::*;

    #[test]
    fn the_cursor_of_an_older_world_is_found_where_it_was() {
        let (universe, world, head) =
            (laws::universe(), laws::world(), JournalHead { height: Height::new(7), chain: Hash::of(b"c") });
        let (old, new) = (InboxSeq::direct(3, 0), InboxSeq::direct(4, 0));
        pollster::block_on(async {
            let mut tx = Memory::new().begin().await.unwrap();
            let before = [&[0x82, 7, 0x58, 32], &head.chain.as_bytes()[..]].concat(); // as it was without a cursor
            tx.put(key(universe, world).as_bytes(), before).unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), Some(Position { head, cursor: None }));
            tx.put(inbox_cursor::key(universe, world).as_bytes(), inbox_cursor::bytes(old)).unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), Some(Position { head, cursor: Some(old) }));
            write(&mut tx, universe, world, Position { head, cursor: Some(new) }).unwrap();
            assert_eq!(read(&mut tx, universe, world).await.unwrap(), Some(Position { head, cursor: Some(new) }));
        });
    }

    proptest! {
        #[test]
        fn the_value_survives(height in laws::heights(), chain in laws::hashes(), cursor in prop::option::of(laws::seqs()), noise: Vec<u8>) {
            laws::value_survives(Family::JournalHead, &Stored { height, chain, cursor }, &noise)?;
        }
    }
}
