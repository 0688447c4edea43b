//! `u/<u>/programs/names/<name>`: the programs of a universe that have a name, and which version is given next.
//!
//! Written by `name_program` with each new version, and by `unname_program`; removed with the last version. That it counts
//! the versions makes their bound one read, and that it knows the highest number keeps a deleted one from being given again. Free.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ProgramName {
    /// How many versions there are.
    #[n(0)]
    pub versions: u32,
    /// The highest number that was ever given under this name.
    #[n(1)]
    pub highest: u32,
}

pub fn key(universe: UniverseId, name: &str) -> Key {
    KeyBuilder::universe(universe, Family::ProgramName).bytes(name.as_bytes()).key()
}

pub fn prefix(universe: UniverseId) -> Key {
    Family::ProgramName.prefix(universe)
}

pub(crate) fn parse(universe: UniverseId, key: &[u8]) -> Result<String, StoreError> {
    KeyReader::after(Family::ProgramName, &prefix(universe), key)?.text()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
) -> Result<Option<ProgramName>, StoreError> {
    get(tx, Family::ProgramName, &key(universe, name)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    record: &ProgramName,
) -> Result<(), StoreError> {
    put(tx, &key(universe, name), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            let key = |name: &str| key(laws::universe(), name);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(parse(laws::universe(), key(&a).as_bytes()).unwrap(), a);
        }

        #[test]
        fn the_value_survives(versions: u32, highest: u32, noise: Vec<u8>) {
            laws::value_survives(Family::ProgramName, &ProgramName { versions, highest }, &noise)?;
        }
    }
}
