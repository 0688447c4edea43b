//! `u/<u>/worlds/names/<name>`: the world that has a name.
//!
//! Written by `create_world`, `import_world` and `name_world`, in the transaction that gives the name. Immutable: it outlives the world, as the id
//! does, so a name is never used twice. The ids of most worlds follow from their names; those of imports and of some forks do not.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NamedWorld {
    #[n(0)]
    pub world: WorldId,
}

pub fn key(universe: UniverseId, name: &str) -> Key {
    KeyBuilder::universe(universe, Family::NamedWorld).bytes(name.as_bytes()).key()
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
) -> Result<Option<NamedWorld>, StoreError> {
    get(tx, Family::NamedWorld, &key(universe, name)).await
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    world: WorldId,
) -> Result<(), StoreError> {
    put(tx, &key(universe, name), &NamedWorld { world })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9.:@_-]{1,16}", b in "[a-z0-9.:@_-]{1,16}") {
            let key = |name: &str| key(laws::universe(), name);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        }

        #[test]
        fn the_value_survives(world in laws::worlds(), noise: Vec<u8>) {
            laws::value_survives(Family::NamedWorld, &NamedWorld { world }, &noise)?;
        }
    }
}
