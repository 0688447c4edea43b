//! `u/<u>/cas/sweep/<hash>`: a large body that a sweep has decided to delete.
//!
//! Written by `cas_sweep` in the transaction that removes the object's metadata, and removed by a later sweep, once
//! the deletion is long over. Its generation only rises. A put that finds one uploads as the next generation.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, cas_meta::Generation, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Doomed {
    /// This upload and all before it are to be deleted.
    #[n(0)]
    pub generation: Generation,
    #[n(1)]
    pub doomed_at_ns: u64,
}

pub fn key(universe: UniverseId, hash: Hash) -> Key {
    KeyBuilder::universe(universe, Family::Sweep).bytes(hash.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::Sweep).key()
}

pub(crate) fn span(universe: UniverseId) -> Span {
    prefix(universe).span()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<Hash, StoreError> {
    let mut reader = KeyReader::after(Family::Sweep, &prefix(universe), key)?;
    let hash = reader.hash()?;
    reader.end(hash)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
) -> Result<Option<Doomed>, StoreError> {
    get(tx, Family::Sweep, &key(universe, hash)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
    doomed: &Doomed,
) -> Result<(), StoreError> {
    put(tx, &key(universe, hash), doomed)
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
        fn the_value_survives(number: u32, doomed_at_ns: u64, noise: Vec<u8>) {
            let doomed = Doomed { generation: Generation::new(number), doomed_at_ns };
            laws::value_survives(Family::Sweep, &doomed, &noise)?;
        }
    }
}
