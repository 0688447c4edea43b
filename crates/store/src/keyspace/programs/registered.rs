//! `u/<u>/registered/<kind>/<hash>`: a manifest or a program that worlds of the universe may run.
//!
//! Written by `register`: for whoever may administer the universe, for what is built in, and once for what worlds of before
//! run on. Immutable; removed by `keep_object`, when it is deleted. The value names the hash and what it needs, so that the content store keeps all of it.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RegisteredKind {
    Manifest = 0,
    Program = 1,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Registered {
    #[n(0)]
    pub hash: Hash,
    /// The program and the schemas that a manifest names.
    #[n(1)]
    pub needs: Vec<Hash>,
    #[n(2)]
    pub at_ns: u64,
}

pub fn key(universe: UniverseId, kind: RegisteredKind, hash: Hash) -> Key {
    KeyBuilder::universe(universe, Family::Registered).bytes(&[kind as u8]).bytes(hash.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    kind: RegisteredKind,
    hash: Hash,
) -> Result<Option<Registered>, StoreError> {
    get(tx, Family::Registered, &key(universe, kind, hash)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    kind: RegisteredKind,
    registered: &Registered,
) -> Result<(), StoreError> {
    put(tx, &key(universe, kind, registered.hash), registered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_manifest_is_a_program(a in laws::hashes(), b in laws::hashes()) {
            let key = |kind, hash| key(laws::universe(), kind, hash);
            prop_assert!(key(RegisteredKind::Manifest, a) < key(RegisteredKind::Program, b));
            prop_assert_eq!(key(RegisteredKind::Program, a) == key(RegisteredKind::Program, b), a == b);
        }

        #[test]
        fn the_value_survives(
            hash in laws::hashes(),
            needs in prop::collection::vec(laws::hashes(), 0..4),
            at_ns: u64,
            noise: Vec<u8>,
        ) {
            laws::value_survives(Family::Registered, &Registered { hash, needs, at_ns }, &noise)?;
        }
    }
}
