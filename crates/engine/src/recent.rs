//! Recent writes, to find out at commit whether a read has changed.
//!
//! Engines that check commits in this process share it. The last groups stay as they were written; they also answer what
//! the embedded engine's tree does not hold yet. A transaction is mostly
//! younger than all but two or three of them. For older ones, the groups behind are merged into runs of keys, each about
//! twice as long as the next newer one: no check looks through many of them, and a key is merged only a few times.

use crate::overlay::Overlay;
use bytes::Bytes;
use std::collections::VecDeque;

/// The writes of a group, in order of keys; of two on one key, the later holds.
pub(crate) type Writes = Vec<(Bytes, Option<Bytes>)>;

/// A key and its version cost about 100 bytes. When an old transaction holds more than this, the oldest
/// part is forgotten and the transaction has to run again.
const KEYS_MAX: usize = 500_000;
/// The number of keys that are forgotten at a time.
const RUN_KEYS_MAX: usize = KEYS_MAX / 8;
/// More groups than can be on disk and not yet in the tree, and than most transactions live through.
const GROUPS_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct RecentWrites {
    /// The last groups, oldest first, with their versions.
    groups: VecDeque<(u64, Writes)>,
    /// The versions before those, oldest first.
    runs: VecDeque<Run>,
    keys: usize,
    /// Writes of this version and below are no longer known.
    forgotten: u64,
}

/// The keys of several versions in order, each with the last version that wrote it.
struct Run {
    newest: u64,
    keys: Vec<(Bytes, u64)>,
}

impl RecentWrites {
    pub(crate) fn new(newest: u64) -> Self {
        Self { forgotten: newest, ..Self::default() }
    }

    /// Whether a transaction that read these at a snapshot may still commit.
    ///
    /// A blind write depends on nothing; but a deleted range must know what was written since.
    pub(crate) fn allow(&self, overlay: &Overlay, snapshot: u64) -> bool {
        let reads = &overlay.reads;
        if snapshot < self.forgotten {
            return reads.keys.is_empty() && reads.ranges.is_empty() && overlay.cleared.is_empty();
        }
        !reads.keys.iter().any(|key| self.wrote(key, snapshot))
            && reads.ranges.iter().all(|(start, end)| self.written_after(snapshot, start, end).next().is_none())
    }

    /// Whether a key surely was not written after a snapshot.
    #[cfg(feature = "postgres")]
    pub(crate) fn knows_unchanged(&self, key: &Bytes, snapshot: u64) -> bool {
        snapshot >= self.forgotten && !self.wrote(key, snapshot)
    }

    /// Whether a key was written after a snapshot.
    fn wrote(&self, key: &Bytes, snapshot: u64) -> bool {
        self.groups_after(snapshot).any(|writes| last_write(writes, key).is_some())
            || self.runs_after(snapshot).any(|keys| {
                let found = keys.binary_search_by(|(written, _)| written.cmp(key));
                found.is_ok_and(|place| keys[place].1 > snapshot)
            })
    }

    /// The keys in a range that were written after a snapshot, each at least once.
    pub(crate) fn written_after<'a>(
        &'a self,
        snapshot: u64,
        start: &'a Bytes,
        end: &'a Bytes,
    ) -> impl Iterator<Item = &'a Bytes> {
        let in_groups =
            self.groups_after(snapshot).flat_map(move |writes| between(writes, start, end).iter().map(|(key, _)| key));
        let in_runs = self.runs_after(snapshot).flat_map(move |keys| {
            let later = between(keys, start, end).iter().filter(move |(_, version)| *version > snapshot);
            later.map(|(key, _)| key)
        });
        in_groups.chain(in_runs)
    }

    fn groups_after(&self, snapshot: u64) -> impl Iterator<Item = &Writes> {
        self.groups.iter().rev().take_while(move |(version, _)| *version > snapshot).map(|(_, writes)| writes)
    }

    fn runs_after(&self, snapshot: u64) -> impl Iterator<Item = &[(Bytes, u64)]> {
        self.runs.iter().rev().take_while(move |run| run.newest > snapshot).map(|run| &run.keys[..])
    }

    /// The value that was written to a key after a version that is among the last groups: `Some(None)` if it was deleted.
    pub(crate) fn value_after(&self, version: u64, key: &Bytes) -> Option<&Option<Bytes>> {
        self.groups_after(version).find_map(|writes| last_write(writes, key))
    }

    /// Notes a group that is on disk.
    pub(crate) fn note(&mut self, version: u64, writes: Writes) {
        self.keys += writes.len();
        self.groups.push_back((version, writes));
    }

    /// Forgets what no open transaction can conflict with, and more if there is too much. Whatever is above `applied`
    /// stays as it is.
    pub(crate) fn tidy(&mut self, oldest_snapshot: u64, applied: u64) {
        while let Some(run) = self.runs.pop_front_if(|run| run.newest <= oldest_snapshot || self.keys > KEYS_MAX) {
            self.forget(run.newest, run.keys.len());
        }
        let useless = |version: u64| version <= applied && version <= oldest_snapshot;
        while let Some((version, writes)) = self.groups.pop_front_if(|(version, _)| useless(*version)) {
            self.forget(version, writes.len());
        }
        while self.groups.len() > GROUPS_MAX {
            let Some((newest, writes)) = self.groups.pop_front_if(|(version, _)| *version <= applied) else { return };
            let before = writes.len();
            let mut keys: Vec<_> = writes.into_iter().map(|(key, _)| (key, newest)).collect();
            keys.dedup_by(|(one, _), (other, _)| one == other);
            self.keys -= before - keys.len();
            self.add_run(Run { newest, keys });
        }
    }

    fn forget(&mut self, version: u64, keys: usize) {
        self.forgotten = version;
        self.keys -= keys;
    }

    fn add_run(&mut self, mut run: Run) {
        let fits = |older: &mut Run, run: &Run| {
            older.keys.len() < 2 * run.keys.len() && older.keys.len() + run.keys.len() <= RUN_KEYS_MAX
        };
        while let Some(older) = self.runs.pop_back_if(|older| fits(older, &run)) {
            let before = older.keys.len() + run.keys.len();
            run.keys = merge(older.keys, run.keys);
            self.keys -= before - run.keys.len();
        }
        self.runs.push_back(run);
    }
}

/// Both in order; of a key in both, the newer holds.
fn merge(older: Vec<(Bytes, u64)>, newer: Vec<(Bytes, u64)>) -> Vec<(Bytes, u64)> {
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let mut older = older.into_iter().peekable();
    for (key, version) in newer {
        while let Some(before) = older.next_if(|(written, _)| *written < key) {
            merged.push(before);
        }
        older.next_if(|(written, _)| *written == key);
        merged.push((key, version));
    }
    merged.extend(older);
    merged
}

fn last_write<'a>(writes: &'a Writes, key: &Bytes) -> Option<&'a Option<Bytes>> {
    let end = writes.partition_point(|(written, _)| written <= key);
    let (written, value) = writes.get(end.checked_sub(1)?)?;
    (written == key).then_some(value)
}

fn between<'a, T>(sorted: &'a [(Bytes, T)], start: &Bytes, end: &Bytes) -> &'a [(Bytes, T)] {
    let from = sorted.partition_point(|(key, _)| key < start);
    let to = sorted.partition_point(|(key, _)| key < end);
    sorted.get(from..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn written(keys: &[&str]) -> Writes {
        keys.iter().map(|text| (key(text), None)).collect()
    }

    fn read(text: &str) -> Overlay {
        let mut overlay = Overlay::default();
        overlay.reads.keys.push(key(text));
        overlay
    }

    #[test]
    fn only_later_writes_conflict() {
        let mut recent = RecentWrites::new(4);
        recent.note(5, written(&["a"]));
        recent.note(6, written(&["b"]));
        assert!(!recent.allow(&read("a"), 4));
        assert!(recent.allow(&read("a"), 5));
        let mut range = Overlay::default();
        range.reads.ranges.push((key("a"), key("b")));
        assert!(recent.allow(&range, 5) && !recent.allow(&range, 4));
    }

    #[test]
    fn what_is_forgotten_is_not_believed_unchanged() {
        let mut recent = RecentWrites::new(4);
        recent.note(5, written(&["a"]));
        recent.note(6, written(&["a"]));
        recent.tidy(5, 6);
        assert!(!recent.allow(&read("z"), 4));
        assert!(!recent.allow(&read("a"), 5));
        recent.tidy(6, 6);
        assert!(recent.groups.is_empty() && recent.keys == 0);
    }

    #[test]
    fn what_the_tree_does_not_hold_yet_is_never_forgotten() {
        let mut recent = RecentWrites::new(0);
        for version in 1..=20 {
            recent.note(version, vec![(key("a"), Some(key(&version.to_string())))]);
            recent.tidy(version, 0);
        }
        assert_eq!(recent.value_after(0, &key("a")), Some(&Some(key("20"))));
        recent.tidy(20, 20);
        assert_eq!((recent.value_after(0, &key("a")), recent.keys), (None, 0));
    }

    #[test]
    fn an_old_transaction_cannot_make_it_grow_without_bound() {
        let mut recent = RecentWrites::new(0);
        for version in 1..=KEYS_MAX as u64 + 1_000 {
            recent.note(version, vec![(Bytes::copy_from_slice(&version.to_be_bytes()), None)]);
            recent.tidy(0, version);
        }
        assert!(recent.keys <= KEYS_MAX + 1 && !recent.allow(&read("a"), 1));
        assert!(recent.runs.len() < 40, "no check looks through many");
        assert!(recent.allow(&Overlay::default(), 1), "a blind write conflicts with nothing");
    }

    proptest! {
        #[test]
        fn it_knows_the_last_version_of_every_key(groups in prop::collection::vec(prop::collection::btree_set(0..40u8, 1..6), 1..60)) {
            let (mut recent, mut last) = (RecentWrites::new(0), BTreeMap::new());
            for (version, keys) in (1u64..).zip(&groups) {
                recent.note(version, keys.iter().map(|byte| (Bytes::copy_from_slice(&[*byte]), None)).collect());
                recent.tidy(0, version);
                last.extend(keys.iter().map(|byte| (*byte, version)));
                for snapshot in [0, version / 3, version / 2, version - 1, version] {
                    for byte in 0..40 {
                        let single = Bytes::copy_from_slice(&[byte]);
                        let changed = last.get(&byte).is_some_and(|version| *version > snapshot);
                        prop_assert_eq!(recent.wrote(&single, snapshot), changed);
                        let next = Bytes::copy_from_slice(&[byte + 1]);
                        prop_assert_eq!(recent.written_after(snapshot, &single, &next).next().is_some(), changed);
                    }
                }
            }
        }
    }
}
