//! `u/<u>/kept/<hash>`: a program or manifest that a universe keeps, whether a world runs it or not.
//!
//! Written and removed by `keep_object`. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Kept {
    #[n(0)]
    pub kind: Kind,
    #[n(1)]
    pub since_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Kind {
    #[n(0)]
    Program,
    #[n(1)]
    Manifest,
}

pub fn key(universe: UniverseId, hash: Hash) -> Key {
    KeyBuilder::universe(universe, Family::KeptObject).bytes(hash.as_bytes()).key()
}

pub(crate) fn span(universe: UniverseId) -> Span {
    Family::KeptObject.prefix(universe).span()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<Hash, StoreError> {
    let mut reader = KeyReader::after(Family::KeptObject, &Family::KeptObject.prefix(universe), key)?;
    let hash = reader.hash()?;
    reader.end(hash)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
) -> Result<Option<Kept>, StoreError> {
    get(tx, Family::KeptObject, &key(universe, hash)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
    kept: &Kept,
) -> Result<(), StoreError> {
    put(tx, &key(universe, hash), kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_hash(a in laws::hashes(), b in laws::hashes()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |hash| key(universe, *hash), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(since_ns: u64, manifest: bool, noise: Vec<u8>) {
            let kind = if manifest { Kind::Manifest } else { Kind::Program };
            laws::value_survives(Family::KeptObject, &Kept { kind, since_ns }, &noise)?;
        }
    }
}
