//! `u/<u>/worlds/index/<what>/<value>/<world>`: worlds by state, time of creation, manifest, label and last activity.
//!
//! An entry is written and removed in the transaction that changes its world: with the world's meta record by
//! [`world_meta::write`](crate::keyspace::world_meta), with its manifest by `create_world`, `import_world`, `commit_turn` and `delete_world`, with its last activity by
//! [`last_active`](crate::keyspace::last_active), and by those that create and delete it. Immutable; the value is empty. A world
//! that is being deleted or was deleted has an entry for its state and no other.

use crate::StoreError;
use crate::keyspace::{
    Family, Key, KeyBuilder, Span,
    world_meta::{ListedState, WorldMeta},
};
use mundi_engine::Transaction;
use mundi_model::{
    Hash, UniverseId, WorldId,
    mutants::{Mutant, planted},
};
use std::collections::BTreeSet;

/// The indexes by which worlds are found. Ordinals are persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexed<'a> {
    State(ListedState),
    CreatedAt(u64),
    Manifest(Hash),
    /// Neither a key nor a value contains a zero byte, which ends each.
    Label(&'a str, &'a str),
    /// Zero for a world that was never opened.
    ActiveAt(u64),
}

fn of(universe: UniverseId, what: Indexed<'_>) -> KeyBuilder {
    let key = KeyBuilder::universe(universe, Family::WorldIndex);
    match what {
        Indexed::State(state) => key.u8(1).u8(state as u8),
        Indexed::CreatedAt(at_ns) => key.u8(2).u64(at_ns),
        Indexed::Manifest(manifest) => key.u8(3).bytes(manifest.as_bytes()),
        Indexed::Label(name, value) => key.u8(4).bytes(name.as_bytes()).u8(0).bytes(value.as_bytes()).u8(0),
        Indexed::ActiveAt(at_ns) => key.u8(5).u64(at_ns),
    }
}

pub fn key(universe: UniverseId, what: Indexed<'_>, world: WorldId) -> Key {
    of(universe, what).bytes(world.as_bytes()).key()
}

/// All worlds of one value.
pub(crate) fn span(universe: UniverseId, what: Indexed<'_>) -> Span {
    of(universe, what).key().span()
}

/// All worlds with a label of this key.
pub(crate) fn with_label(universe: UniverseId, name: &str) -> Span {
    KeyBuilder::universe(universe, Family::WorldIndex).u8(4).bytes(name.as_bytes()).u8(0).key().span()
}

/// All worlds that were created from a time on and before another one, in that order.
pub(crate) fn created(universe: UniverseId, from_ns: u64, before_ns: Option<u64>) -> Span {
    let all = KeyBuilder::universe(universe, Family::WorldIndex).u8(2).key().span();
    let at = |at_ns| of(universe, Indexed::CreatedAt(at_ns)).key();
    Span { start: at(from_ns), end: before_ns.map_or(all.end, at) }
}

/// All worlds that were active last from a time on and before another one, in that order.
pub(crate) fn active(universe: UniverseId, from_ns: u64, before_ns: Option<u64>) -> Span {
    let all = KeyBuilder::universe(universe, Family::WorldIndex).u8(5).key().span();
    let at = |at_ns| of(universe, Indexed::ActiveAt(at_ns)).key();
    Span { start: at(from_ns), end: before_ns.map_or(all.end, at) }
}

/// The world that any key of the family names: it stands last.
pub fn world_of(key: &[u8]) -> Option<WorldId> {
    key.last_chunk().copied().map(WorldId::from_bytes)
}

/// The entries that follow from a world's meta record.
pub fn entries(universe: UniverseId, world: WorldId, meta: &WorldMeta) -> BTreeSet<Key> {
    let mut entries = BTreeSet::from([key(universe, Indexed::State(meta.listed_state()), world)]);
    if !meta.state.is_gone() {
        entries.insert(key(universe, Indexed::CreatedAt(meta.created_at_ns), world));
        let labels = meta.labels.iter().flat_map(mundi_model::Labels::iter);
        entries.extend(labels.map(|(name, value)| key(universe, Indexed::Label(name, value), world)));
    }
    entries
}

/// Follows a change of a world's meta record.
pub(crate) fn follow<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    before: Option<&WorldMeta>,
    after: &WorldMeta,
) -> Result<(), StoreError> {
    let old = before.map(|before| entries(universe, world, before)).unwrap_or_default();
    let new = entries(universe, world, after);
    for gone in old.difference(&new).filter(|_| !planted(Mutant::IndexStale)) {
        tx.delete(gone.as_bytes())?;
    }
    new.difference(&old).try_for_each(|entry| Ok(tx.put(entry.as_bytes(), bytes::Bytes::new())?))
}

/// Follows a change of a world's manifest.
pub(crate) fn follow_manifest<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    before: Option<Hash>,
    after: Option<Hash>,
) -> Result<(), StoreError> {
    if before == after {
        return Ok(());
    }
    if let Some(before) = before {
        tx.delete(key(universe, Indexed::Manifest(before), world).as_bytes())?;
    }
    if let Some(after) = after {
        tx.put(key(universe, Indexed::Manifest(after), world).as_bytes(), bytes::Bytes::new())?;
    }
    Ok(())
}

/// Follows a world that comes or goes, or that a worker opens or releases: when it was active before and after, `None` where it is not there.
pub(crate) fn follow_active<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    before: Option<u64>,
    after: Option<u64>,
) -> Result<(), StoreError> {
    if let Some(before) = before.filter(|before| Some(*before) != after && !planted(Mutant::ActivityStale)) {
        tx.delete(key(universe, Indexed::ActiveAt(before), world).as_bytes())?;
    }
    if let Some(after) = after {
        tx.put(key(universe, Indexed::ActiveAt(after), world).as_bytes(), bytes::Bytes::new())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_sort_by_value_then_world(a in ("[a-z]{1,4}", "[a-z ]{0,4}", laws::worlds()), b in ("[a-z]{1,4}", "[a-z ]{0,4}", laws::worlds())) {
            let key = |(name, value, world): &(String, String, WorldId)| key(laws::universe(), Indexed::Label(name, value), *world);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(world_of(key(&a).as_bytes()), Some(a.2));
        }

        #[test]
        fn a_span_holds_the_worlds_of_its_value_only(name in "[a-z]{1,4}", other in "[a-z]{1,4}", world in laws::worlds()) {
            let span = span(laws::universe(), Indexed::Label("k", &name));
            let entry = key(laws::universe(), Indexed::Label("k", &other), world);
            prop_assert_eq!(span.start <= entry && entry < span.end, name == other);
        }
    }
}
