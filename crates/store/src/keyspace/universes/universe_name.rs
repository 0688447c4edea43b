//! `directory/universes/<name>`: which universes there are, by the names that people gave them.
//!
//! Lives in the directory, which is no universe of anyone's. Written once, by `name_universe`. Immutable.

use crate::StoreError;
use crate::keyspace::{DIRECTORY, Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NamedUniverse {
    #[n(0)]
    pub universe: UniverseId,
    #[n(1)]
    pub created_at_ns: u64,
}

pub fn key(name: &str) -> Key {
    KeyBuilder::universe(DIRECTORY, Family::UniverseName).bytes(name.as_bytes()).key()
}

pub fn prefix() -> Key {
    Family::UniverseName.prefix(DIRECTORY)
}

pub(crate) fn parse(key: &[u8]) -> Result<String, StoreError> {
    KeyReader::after(Family::UniverseName, &prefix(), key)?.text()
}

pub(crate) async fn read<T: Transaction>(tx: &mut T, name: &str) -> Result<Option<NamedUniverse>, StoreError> {
    get(tx, Family::UniverseName, &key(name)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, name: &str, named: &NamedUniverse) -> Result<(), StoreError> {
    put(tx, &key(name), named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(parse(key(&a).as_bytes()).unwrap(), a);
        }

        #[test]
        fn the_value_survives(created_at_ns: u64, noise: Vec<u8>) {
            let named = NamedUniverse { universe: laws::universe(), created_at_ns };
            laws::value_survives(Family::UniverseName, &named, &noise)?;
        }
    }
}
