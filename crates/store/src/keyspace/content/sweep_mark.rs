//! `u/<u>/cas/sweep/mark/<number>`: hashes that the walk in progress has found references to.
//!
//! Written by `sweep_run` as the walk continues, so that a walk that was interrupted is resumed; removed at its end. Immutable.

use crate::keyspace::{Family, Key, KeyBuilder, Span};
use crate::{Damaged, StoreError};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

/// How many hashes one value holds: within what a value may have.
pub const HASHES_MAX: usize = 2_000;

pub fn key(universe: UniverseId, number: u32) -> Key {
    KeyBuilder::universe(universe, Family::SweepMark).u64(u64::from(number)).key()
}

pub(crate) fn span(universe: UniverseId) -> Span {
    Family::SweepMark.prefix(universe).span()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    number: u32,
    hashes: &[Hash],
) -> Result<(), StoreError> {
    Ok(tx.put(key(universe, number).as_bytes(), encode(hashes))?)
}

fn encode(hashes: &[Hash]) -> Bytes {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

/// The hashes of one value.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Vec<Hash>, StoreError> {
    let (hashes, []) = value.as_chunks::<{ Hash::LEN }>() else {
        return Err(Damaged::new(Family::SweepMark, key, "it is no list of hashes".to_owned()).into());
    };
    Ok(hashes.iter().map(|hash| Hash::from_bytes(*hash)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::limits;
    use proptest::prelude::*;

    const _: () = assert!(HASHES_MAX * Hash::LEN <= limits::VALUE_BYTES_MAX);

    proptest! {
        #[test]
        fn the_value_survives(hashes in prop::collection::vec(laws::hashes(), 0..20), cut in 1..Hash::LEN) {
            let bytes = encode(&hashes);
            prop_assert_eq!(decode(b"key", &bytes).unwrap(), hashes.clone());
            if !hashes.is_empty() {
                prop_assert!(decode(b"key", &bytes[cut..]).is_err());
            }
        }

        #[test]
        fn keys_sort_by_number(a: u32, b: u32) {
            let universe = laws::universe();
            prop_assert_eq!(a.cmp(&b), key(universe, a).cmp(&key(universe, b)));
        }
    }
}
