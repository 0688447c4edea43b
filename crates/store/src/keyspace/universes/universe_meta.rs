//! `u/<u>/meta`: that a universe exists.
//!
//! Written once, by `create_universe`. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct UniverseMeta {
    #[n(0)]
    pub created_at_ns: u64,
}

pub fn key(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::UniverseMeta).key()
}

pub(crate) async fn read<T: Transaction>(tx: &mut T, universe: UniverseId) -> Result<Option<UniverseMeta>, StoreError> {
    get(tx, Family::UniverseMeta, &key(universe)).await
}

pub(crate) fn write<T: Transaction>(tx: &mut T, universe: UniverseId, meta: &UniverseMeta) -> Result<(), StoreError> {
    put(tx, &key(universe), meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_survives(created_at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::UniverseMeta, &UniverseMeta { created_at_ns }, &noise)?;
        }
    }
}
