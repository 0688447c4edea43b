//! `u/<u>/cas/meta/<hash>`: what the content store knows about one object, and its body if it is small.
//!
//! Written by `cas_put`, marked by `cas_condemn`, removed by `cas_sweep`. Size and body are immutable; the two
//! times are free. The key of a large body is not stored but derived, so that the two cannot disagree.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, get, get_snapshot, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CasMeta {
    #[n(0)]
    pub size: u64,
    #[n(1)]
    pub body: Body,
    /// When it was put, or put again after a sweep had condemned it.
    #[n(2)]
    pub put_at_ns: u64,
    /// When a walk found that nothing refers to it. A put takes this back.
    #[n(3)]
    pub condemned_at_ns: Option<u64>,
}

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Body {
    #[n(0)]
    Inline(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// In the object store, uploaded as this generation.
    #[n(1)]
    Object(#[n(0)] Generation),
}

/// How often the body of a hash was swept away before this upload.
///
/// The first upload has the plain key. One that follows a sweep has another, so that a deletion which is
/// still on its way can never hit the new body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Generation(#[n(0)] u32);

impl Generation {
    pub const FIRST: Self = Self(0);

    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

pub fn key(universe: UniverseId, hash: Hash) -> Key {
    KeyBuilder::universe(universe, Family::CasMeta).bytes(hash.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::CasMeta).key()
}

pub(crate) fn span(universe: UniverseId) -> Span {
    prefix(universe).span()
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<Hash, StoreError> {
    let mut reader = KeyReader::after(Family::CasMeta, &prefix(universe), key)?;
    let hash = reader.hash()?;
    reader.end(hash)
}

/// The commit depends on it: what refers to an object must not commit while the object is swept away.
pub async fn read<T: Transaction>(tx: &mut T, universe: UniverseId, hash: Hash) -> Result<Option<CasMeta>, StoreError> {
    get(tx, Family::CasMeta, &key(universe, hash)).await
}

pub async fn read_snapshot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
) -> Result<Option<CasMeta>, StoreError> {
    get_snapshot(tx, Family::CasMeta, &key(universe, hash)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    hash: Hash,
    meta: &CasMeta,
) -> Result<(), StoreError> {
    put(tx, &key(universe, hash), meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    fn bodies() -> impl Strategy<Value = Body> {
        prop_oneof![
            any::<Vec<u8>>().prop_map(Body::Inline),
            any::<u32>().prop_map(|number| Body::Object(Generation::new(number)))
        ]
    }

    proptest! {
        #[test]
        fn keys_sort_by_hash(a in laws::hashes(), b in laws::hashes()) {
            let universe = laws::universe();
            laws::keys_are_ordered((a, b), |hash| key(universe, *hash), |key| parse(universe, key))?;
        }

        #[test]
        fn the_value_survives(size: u64, body in bodies(), put_at_ns: u64, condemned_at_ns: Option<u64>, noise: Vec<u8>) {
            let meta = CasMeta { size, body, put_at_ns, condemned_at_ns };
            laws::value_survives(Family::CasMeta, &meta, &noise)?;
        }
    }
}
