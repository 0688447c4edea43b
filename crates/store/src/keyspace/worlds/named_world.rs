//! `u/<u>/worlds/names/<name>`: the world that has a name.
//!
//! Written by `create_world`, `import_world` and `name_world`, in the transaction that gives the name. Immutable: it outlives the world, as the id
//! does, so a name is never used twice. The ids of most worlds follow from their names; those of imports and of some forks do not.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, Span, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct NamedWorld {
    #[n(0)]
    pub world: WorldId,
}

pub fn key(universe: UniverseId, name: &str) -> Key {
    KeyBuilder::universe(universe, Family::NamedWorld).bytes(name.as_bytes()).key()
}

/// The names that begin so, from a name on and before another one.
pub(crate) fn between(universe: UniverseId, prefix: &str, from: Option<&str>, before: Option<&str>) -> Span {
    let all = key(universe, prefix).span();
    // A text that is longer than any name is cut: names before it may then be read, and none is missed.
    let at = |text: &str, end: &str| {
        let cut = &text[..text.floor_char_boundary(limits::WORLD_NAME_BYTES_MAX)];
        key(universe, &if cut.len() < text.len() { format!("{cut}{end}") } else { cut.to_owned() })
    };
    let start = from.map(|from| at(from, "")).into_iter().fold(all.start, Key::max);
    let end = before.map(|before| at(before, "\u{7f}")).into_iter().fold(all.end, Key::min);
    Span { end: end.max(start.clone()), start }
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
