//! `u/<u>/cas/edge/<hash>`: what an object refers to, so that reachability is walked without parsing bodies.
//!
//! Written by `cas_put`, removed by `cas_sweep` with the object. Monotonic: references are only added. Absent
//! when the object refers to nothing.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};
use std::collections::BTreeSet;

/// The references of one object; which one says the key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct BlobEdge {
    #[n(0)]
    pub refs: BTreeSet<Hash>,
}

pub fn key(universe: UniverseId, hash: Hash) -> Key {
    KeyBuilder::universe(universe, Family::BlobEdge).bytes(hash.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::BlobEdge).key()
}

pub(crate) fn span(universe: UniverseId) -> Span {
    prefix(universe).span()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<Hash, StoreError> {
    let mut reader = KeyReader::after(Family::BlobEdge, &prefix(universe), key)?;
    let hash = reader.hash()?;
    reader.end(hash)
}

/// No edge and an empty one are the same.
pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, hash: Hash) -> Result<BlobEdge, StoreError> {
    Ok(get(tx, Family::BlobEdge, &key(universe, hash)).await?.unwrap_or_default())
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
    edge: &BlobEdge,
) -> Result<(), StoreError> {
    put(tx, &key(universe, hash), edge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::{cbor, limits};
    use proptest::prelude::*;

    #[test]
    fn as_many_references_as_are_allowed_fit_one_value() {
        let refs = (0..limits::BLOB_REFS_MAX).map(|number| Hash::of(&number.to_be_bytes())).collect();
        assert!(cbor::encode(&BlobEdge { refs }).len() <= limits::VALUE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn keys_sort_by_hash(a in laws::hashes(), b in laws::hashes()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |hash| key(universe, *hash), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(refs in prop::collection::btree_set(laws::hashes(), 0..8), noise: Vec<u8>) {
            laws::value_survives(Family::BlobEdge, &BlobEdge { refs }, &noise)?;
        }
    }
}
