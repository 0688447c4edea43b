//! `u/<u>/programs/by_manifest/<hash>/<name>/<version>`: the names of a manifest, so that a list of worlds shows them.
//!
//! Written and removed together with `programs/versions`, of which it is an index. Immutable.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

fn of(universe: UniverseId, manifest: Hash) -> KeyBuilder {
    KeyBuilder::universe(universe, Family::ProgramOfManifest).bytes(manifest.as_bytes())
}

pub fn key(universe: UniverseId, manifest: Hash, name: &str, version: u32) -> Key {
    of(universe, manifest).u64(u64::from(version)).bytes(name.as_bytes()).key()
}

pub(crate) fn span(universe: UniverseId, manifest: Hash) -> Span {
    of(universe, manifest).key().span()
}

pub(crate) fn parse(universe: UniverseId, manifest: Hash, key: &[u8]) -> Result<(String, u32), StoreError> {
    let mut reader = KeyReader::after(Family::ProgramOfManifest, &of(universe, manifest).key(), key)?;
    let Ok(version) = u32::try_from(reader.u64()?) else { return Err(reader.bad()) };
    Ok((reader.text()?, version))
}

/// The highest version that stands for a manifest; of two names with the same one, the later in the alphabet.
pub(crate) async fn newest<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    manifest: Hash,
) -> Result<Option<(String, u32)>, StoreError> {
    let page = tx.range(span(universe, manifest).read(1).reverse()).await?;
    page.items.first().map(|(key, _)| parse(universe, manifest, key)).transpose()
}

pub(crate) fn write<T: Transaction>(tx: &mut T, key: &Key) -> Result<(), StoreError> {
    Ok(tx.put(key.as_bytes(), bytes::Bytes::new())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_version_and_give_back_the_name(
            manifest in laws::hashes(),
            a in (any::<u32>(), "[a-z0-9-]{1,16}"),
            b in (any::<u32>(), "[a-z0-9-]{1,16}"),
        ) {
            let key = |at: &(u32, String)| key(laws::universe(), manifest, &at.1, at.0);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(parse(laws::universe(), manifest, key(&a).as_bytes()).unwrap(), (a.1, a.0));
        }
    }
}
