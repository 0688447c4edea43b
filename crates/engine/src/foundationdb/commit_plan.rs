//! From what a transaction has gathered to what the client is told at its commit.
//!
//! Nothing is told to the client before. So a transaction's own stamped keys, which FoundationDB makes unreadable, are never in the way of its
//! reads; and what it depends on is declared exactly, because every read is made without a conflict range.

use super::keys::Keyspace;
use crate::overlay::{Overlay, Write, successor};
use bytes::Bytes;

/// A mutation, as the client sends it to the cluster. Keys are as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mutation {
    ClearRange(Bytes, Bytes),
    Clear(Bytes),
    Set(Bytes, Bytes),
    /// To a counter of eight bytes, little-endian.
    Add(Bytes, [u8; 8]),
    /// The key holds room for the stamp, and its place.
    SetStamped(Bytes, Bytes),
}

/// A whole commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CommitPlan {
    /// Ranges that must not have been written since the snapshot.
    pub(super) depends: Vec<(Bytes, Bytes)>,
    /// In this order: deletions of ranges come before what was written into them afterwards.
    pub(super) mutations: Vec<Mutation>,
}

impl CommitPlan {
    pub(super) fn of(keys: &Keyspace, overlay: Overlay) -> Self {
        let Overlay { writes, cleared, stamped, reads, .. } = overlay;
        let singles = reads.keys.iter().map(|key| (keys.stored(key), keys.stored(&successor(key))));
        let ranges = reads.ranges.iter().map(|(start, end)| (keys.stored(start), keys.stored(end)));
        let mut depends: Vec<_> = singles.chain(ranges).collect();
        depends.sort_unstable();
        depends.dedup();
        let cleared = cleared.iter().map(|(start, end)| Mutation::ClearRange(keys.stored(start), keys.stored(end)));
        let writes = writes.into_writes().into_iter().map(|(key, write)| {
            let key = keys.stored(&key);
            match write {
                Write::Put(value) => Mutation::Set(key, value),
                Write::Delete => Mutation::Clear(key),
                Write::Add(delta) => Mutation::Add(key, delta.to_le_bytes()),
            }
        });
        let stamped = stamped.into_iter().map(|put| {
            let (prefix, suffix) = put.around();
            Mutation::SetStamped(keys.stamped(prefix, suffix), put.value.clone())
        });
        Self { depends, mutations: cleared.chain(writes).chain(stamped).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Memory, RangeRead, Transaction, overlay::added};
    use mundi_model::{Stamp, limits};
    use pollster::block_on;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Map = BTreeMap<Bytes, Bytes>;

    /// Applies a plan as a cluster does.
    fn apply(mutations: &[Mutation], stamp: Stamp, map: &mut Map) {
        for mutation in mutations {
            match mutation.clone() {
                Mutation::ClearRange(start, end) => map.retain(|key, _| *key < start || *key >= end),
                Mutation::Clear(key) => drop(map.remove(&key)),
                Mutation::Set(key, value) => drop(map.insert(key, value)),
                Mutation::Add(key, delta) => {
                    let sum = added(map.get(&key), i64::from_le_bytes(delta));
                    map.insert(key, sum);
                }
                Mutation::SetStamped(key, value) => {
                    let (key, place) = key.split_at(key.len() - 4);
                    let place = u32::from_le_bytes(place.try_into().unwrap()) as usize;
                    let mut key = key.to_vec();
                    key[place..place + Stamp::LEN].copy_from_slice(stamp.as_bytes());
                    map.insert(key.into(), value);
                }
            }
        }
    }

    /// How the client counts a transaction; the least that any release needs for a mutation is 40 bytes.
    fn client_bytes(plan: &CommitPlan) -> usize {
        let range = |start: &Bytes, end: &Bytes| 32 + start.len() + end.len();
        let single = |key: &Bytes| 32 + 2 * key.len() + 1;
        let mutation = |mutation: &Mutation| match mutation {
            Mutation::ClearRange(start, end) => 40 + start.len() + end.len() + range(start, end),
            Mutation::Clear(key) => 40 + 2 * key.len() + 1 + single(key),
            Mutation::Set(key, value) => 40 + key.len() + value.len() + single(key),
            Mutation::Add(key, delta) => 40 + key.len() + delta.len() + single(key),
            Mutation::SetStamped(key, value) => 40 + key.len() + value.len(),
        };
        let depends: usize = plan.depends.iter().map(|(start, end)| range(start, end)).sum();
        depends + plan.mutations.iter().map(mutation).sum::<usize>()
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, u8),
        Stamped(u8),
        Add(u8, i64),
        Delete(u8),
        DeleteRange(u8, u8),
        Get(u8),
        Range(u8, u8, usize, bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = 0..12u8;
        let step = prop_oneof![
            (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
            key.clone().prop_map(Step::Stamped),
            (key.clone(), any::<i64>()).prop_map(|(key, delta)| Step::Add(key, delta)),
            key.clone().prop_map(Step::Delete),
            (key.clone(), key.clone()).prop_map(|(start, end)| Step::DeleteRange(start, end)),
            key.clone().prop_map(Step::Get),
            (key.clone(), key, 1..4usize, any::<bool>())
                .prop_map(|(start, end, limit, reverse)| Step::Range(start, end, limit, reverse)),
        ];
        prop::collection::vec(step, 0..40)
    }

    fn name(key: u8) -> [u8; 2] {
        [b'k', key]
    }

    async fn take(tx: &mut impl Transaction, step: &Step) {
        match *step {
            Step::Put(key, value) => tx.put(&name(key), vec![value; 8]).unwrap(),
            // Beside the other keys: whether a range deletion takes the stamped keys of its own transaction is not specified.
            Step::Stamped(key) => tx.put_stamped(&[b's', key], b"x", vec![key]).unwrap(),
            Step::Add(key, delta) => tx.add(&name(key), delta).unwrap(),
            Step::Delete(key) => tx.delete(&name(key)).unwrap(),
            Step::DeleteRange(start, end) => tx.delete_range(&name(start), &name(end)).unwrap(),
            Step::Get(key) => drop(tx.get(&name(key)).await.unwrap()),
            Step::Range(start, end, limit, reverse) => {
                let read = RangeRead::new(name(start).to_vec(), name(end).to_vec(), limit);
                drop(tx.range(RangeRead { reverse, ..read }).await.unwrap());
            }
        }
    }

    /// The same steps, gathered for the cluster.
    fn gathered(steps: &[Step], stored: &Map) -> Overlay {
        let mut overlay = Overlay::default();
        for step in steps {
            match *step {
                Step::Put(key, value) => overlay.put(&name(key), vec![value; 8].into()).unwrap(),
                Step::Stamped(key) => overlay.put_stamped(&[b's', key], b"x", vec![key].into()).unwrap(),
                Step::Add(key, delta) => overlay.add(&name(key), delta).unwrap(),
                Step::Delete(key) => overlay.delete(&name(key)).unwrap(),
                Step::DeleteRange(start, end) => overlay.delete_range(&name(start), &name(end)).unwrap(),
                Step::Get(key) => drop(overlay.get(&name(key), true, |key| Ok(stored.get(key).cloned())).unwrap()),
                Step::Range(start, end, limit, reverse) => {
                    let read = RangeRead { reverse, ..RangeRead::new(name(start).to_vec(), name(end).to_vec(), limit) };
                    let items = stored.iter().filter(|(key, _)| read.start <= **key && **key < read.end);
                    let mut items: Vec<_> = items.map(|(key, value)| Ok((key.clone(), value.clone()))).collect();
                    if reverse {
                        items.reverse();
                    }
                    drop(overlay.range(&read, items.into_iter()).unwrap());
                }
            }
        }
        overlay
    }

    async fn contents(engine: &Memory) -> Map {
        let mut tx = engine.begin().await.unwrap();
        tx.range(RangeRead::prefix(b"", limits::RANGE_ITEMS_MAX)).await.unwrap().items.into_iter().collect()
    }

    proptest! {
        #[test]
        fn a_cluster_holds_after_a_plan_what_the_reference_holds(before in steps(), steps in steps()) {
            block_on(async {
                let (engine, keys) = (Memory::new(), Keyspace::new("mundi"));
                let mut tx = engine.begin().await.unwrap();
                for step in &before {
                    take(&mut tx, step).await;
                }
                tx.commit().await.unwrap();
                let stored = contents(&engine).await;
                let mut tx = engine.begin().await.unwrap();
                for step in &steps {
                    take(&mut tx, step).await;
                }
                let overlay = gathered(&steps, &stored);
                let is_read_only = overlay.is_read_only();
                let (counted, plan) = (overlay.counted(), CommitPlan::of(&keys, overlay));
                let stamp = tx.commit().await.unwrap().stamp();
                prop_assert_eq!(stamp.is_none(), is_read_only);
                let mut map: Map = stored.iter().map(|(key, value)| (keys.stored(key), value.clone())).collect();
                apply(&plan.mutations, stamp.unwrap_or(Stamp::new(0, 0)), &mut map);
                let expected: Map = contents(&engine).await.into_iter().map(|(key, value)| (keys.stored(&key), value)).collect();
                prop_assert_eq!(map, expected);
                prop_assert!(client_bytes(&plan) <= counted, "{} bytes were counted as {counted}", client_bytes(&plan));
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_plan_depends_on_the_keys_and_the_parts_of_ranges_that_were_read() {
        let keys = Keyspace::new("mundi");
        let mut overlay = Overlay::default();
        overlay.put(b"own", "1".into()).unwrap();
        overlay.get(b"own", true, |_| Ok(None)).unwrap();
        overlay.get(b"k", true, |_| Ok(None)).unwrap();
        overlay.get(b"k", true, |_| Ok(None)).unwrap();
        overlay.get(b"snapshot", false, |_| Ok(None)).unwrap();
        let items = ["m1", "m2", "m3"].map(|key| Ok((Bytes::from(key), Bytes::new())));
        overlay.range(&RangeRead::new("m", "n", 2), items.clone().into_iter()).unwrap();
        overlay.range(&RangeRead::new("m", "n", 9).snapshot(), items.into_iter()).unwrap();
        let plan = CommitPlan::of(&keys, overlay);
        let expected = [(keys.stored(b"k"), keys.stored(b"k\0")), (keys.stored(b"m"), keys.stored(b"m2\0"))];
        assert_eq!(plan.depends, expected);
        assert_eq!(plan.mutations, [Mutation::Set(keys.stored(b"own"), "1".into())]);
    }

    #[test]
    fn a_range_is_cleared_before_what_was_put_into_it_afterwards() {
        let keys = Keyspace::new("mundi");
        let mut overlay = Overlay::default();
        overlay.put(b"a1", "before".into()).unwrap();
        overlay.delete_range(b"a", b"b").unwrap();
        overlay.put(b"a2", "after".into()).unwrap();
        overlay.add(b"a3", 7).unwrap();
        let plan = CommitPlan::of(&keys, overlay);
        let expected = [
            Mutation::ClearRange(keys.stored(b"a"), keys.stored(b"b")),
            Mutation::Set(keys.stored(b"a2"), "after".into()),
            Mutation::Set(keys.stored(b"a3"), 7i64.to_le_bytes().to_vec().into()),
        ];
        assert_eq!(plan.mutations, expected, "an add to what the transaction cleared is a put");
    }
}
