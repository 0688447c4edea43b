//! `u/<u>/programs/versions/<name>/<version>`: the manifest that a version of a named program stands for.
//!
//! Written by `name_program`, removed by `unname_program`; immutable in between. The content store keeps the manifest and
//! what it refers to for as long as this names it.
//!
//! A name ends with a zero byte, which none contains: no name is the beginning of another one's keys, and names sort as texts.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ProgramVersion {
    #[n(0)]
    pub manifest: Hash,
    /// The code that the manifest names.
    #[n(1)]
    pub program: Hash,
    #[n(2)]
    pub at_ns: u64,
}

pub fn key(universe: UniverseId, name: &str, version: u32) -> Key {
    of(universe, name).u64(u64::from(version)).key()
}

fn of(universe: UniverseId, name: &str) -> KeyBuilder {
    KeyBuilder::universe(universe, Family::ProgramVersion).bytes(name.as_bytes()).u8(0)
}

/// All versions under a name.
pub(crate) fn versions(universe: UniverseId, name: &str) -> Span {
    of(universe, name).key().span()
}

/// All versions of all names.
pub(crate) fn span(universe: UniverseId) -> Span {
    Family::ProgramVersion.prefix(universe).span()
}

pub(crate) fn parse(universe: UniverseId, name: &str, key: &[u8]) -> Result<u32, StoreError> {
    let mut reader = KeyReader::after(Family::ProgramVersion, &of(universe, name).key(), key)?;
    let Ok(version) = u32::try_from(reader.u64()?) else { return Err(reader.bad()) };
    reader.end(version)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    version: u32,
) -> Result<Option<ProgramVersion>, StoreError> {
    get(tx, Family::ProgramVersion, &key(universe, name, version)).await
}

/// Versions under a name, the newest first.
pub(crate) async fn newest<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    items_max: usize,
) -> Result<Vec<(u32, ProgramVersion)>, StoreError> {
    let page = tx.range(versions(universe, name).read(items_max).reverse()).await?;
    let one = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| {
        Ok((parse(universe, name, key)?, decode_value(Family::ProgramVersion, key, bytes)?))
    };
    page.items.iter().map(one).collect()
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    (name, version): (&str, u32),
    record: &ProgramVersion,
) -> Result<(), StoreError> {
    put(tx, &key(universe, name, version), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name_and_then_by_version(a in ("[a-z0-9-]{1,16}", any::<u32>()), b in ("[a-z0-9-]{1,16}", any::<u32>())) {
            let key = |at: &(String, u32)| key(laws::universe(), &at.0, at.1);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(parse(laws::universe(), &a.0, key(&a).as_bytes()).unwrap(), a.1);
            if a.0 != b.0 {
                prop_assert!(parse(laws::universe(), &b.0, key(&a).as_bytes()).is_err(), "of another name");
            }
        }

        #[test]
        fn the_value_survives(manifest in laws::hashes(), program in laws::hashes(), at_ns: u64, noise: Vec<u8>) {
            laws::value_survives(Family::ProgramVersion, &ProgramVersion { manifest, program, at_ns }, &noise)?;
        }
    }
}
