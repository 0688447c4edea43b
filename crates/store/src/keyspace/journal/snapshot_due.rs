//! `u/<u>/snapshots/due/<due_ns>/<world>`: worlds that rest, by when their next snapshot is due.
//!
//! Written and removed with [`snapshot_due_at`](crate::keyspace::snapshot_due_at), of which it is the index. The value is empty. Free: it only says
//! when to look.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span};
use mundi_model::{UniverseId, WorldId};

pub fn key(universe: UniverseId, due_ns: u64, world: WorldId) -> Key {
    KeyBuilder::universe(universe, Family::SnapshotDue).u64(due_ns).bytes(world.as_bytes()).key()
}

/// Those that are due by then.
pub fn until(universe: UniverseId, now_ns: u64) -> Span {
    let all = Family::SnapshotDue.prefix(universe).span();
    let end = now_ns.checked_add(1).map(|ns| KeyBuilder::universe(universe, Family::SnapshotDue).u64(ns).key());
    Span { end: end.unwrap_or(all.end), start: all.start }
}

pub fn parse(universe: UniverseId, key: &[u8]) -> Result<(u64, WorldId), StoreError> {
    let mut reader = KeyReader::after(Family::SnapshotDue, &Family::SnapshotDue.prefix(universe), key)?;
    let parts = (reader.u64()?, reader.world()?);
    reader.end(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_time_then_world(a: (u64, [u8; 16]), b: (u64, [u8; 16])) {
            let universe = laws::universe();
            let pair = ((a.0, WorldId::from_bytes(a.1)), (b.0, WorldId::from_bytes(b.1)));
            laws::keys_are_ordered(pair, |(due_ns, world)| key(universe, *due_ns, *world), |key| parse(universe, key))?;
        }

        #[test]
        fn what_is_due_is_in_the_span(due_ns: u64, now_ns: u64) {
            let (universe, world) = (laws::universe(), laws::world());
            let (span, key) = (until(universe, now_ns), key(universe, due_ns, world));
            prop_assert_eq!(span.start <= key && key < span.end, due_ns <= now_ns);
        }
    }
}
