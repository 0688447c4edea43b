//! `directory/imports/<universe>`: how far an import has come. It is there while the universe is not whole.
//!
//! Lives in the directory. Written by `transfer::import`, with each part in the same transaction; removed with the last. Monotonic.

use crate::StoreError;
use crate::keyspace::{DIRECTORY, Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct UniverseImport {
    /// The first part that is not there yet.
    #[n(0)]
    pub next_part: u64,
}

pub fn key(universe: UniverseId) -> Key {
    KeyBuilder::universe(DIRECTORY, Family::UniverseImport).bytes(universe.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
) -> Result<Option<UniverseImport>, StoreError> {
    get(tx, Family::UniverseImport, &key(universe)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, to: UniverseImport) -> Result<(), StoreError> {
    put(tx, &key(universe), &to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(next_part: u64, noise: Vec<u8>) {
            laws::value_survives(Family::UniverseImport, &UniverseImport { next_part }, &noise)?;
        }
    }
}
