//! What was written lately, so that a commit can tell whether something it read has changed.

use crate::overlay::Overlay;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// A key and its version cost about 150 bytes. When an old transaction holds more than this, the oldest
/// part is forgotten and the transaction has to run again.
const KEYS_MAX: usize = 500_000;

#[derive(Default)]
pub(super) struct RecentWrites {
    /// The version that last wrote each key.
    last: BTreeMap<Bytes, u64>,
    /// The keys of each version, oldest first.
    by_version: VecDeque<(u64, Vec<Bytes>)>,
    keys: usize,
    /// What the notes of the version in the making replaced, for the case that it is not written.
    replaced: Vec<(Bytes, Option<u64>)>,
    /// Writes of this version and below are no longer known.
    forgotten: u64,
}

impl RecentWrites {
    pub(super) fn new(newest: u64) -> Self {
        Self { forgotten: newest, ..Self::default() }
    }

    /// Whether a transaction that read these at a snapshot may still commit.
    ///
    /// A blind write depends on nothing; but a deleted range must know what was written since.
    pub(super) fn allow(&self, overlay: &Overlay, snapshot: u64) -> bool {
        let reads = &overlay.reads;
        if snapshot < self.forgotten {
            return reads.keys.is_empty() && reads.ranges.is_empty() && overlay.cleared.is_empty();
        }
        let unchanged = |key: &Bytes| self.last.get(key).is_none_or(|&version| version <= snapshot);
        reads.keys.iter().all(unchanged) && reads.ranges.iter().all(|(start, end)| self.unchanged(start, end, snapshot))
    }

    fn unchanged(&self, start: &Bytes, end: &Bytes, snapshot: u64) -> bool {
        self.range(start, end).all(|(_, &version)| version <= snapshot)
    }

    /// The keys in a range that were written after a snapshot.
    pub(super) fn written_after(&self, snapshot: u64, start: &Bytes, end: &Bytes) -> impl Iterator<Item = &Bytes> {
        self.range(start, end).filter(move |&(_, &version)| version > snapshot).map(|(key, _)| key)
    }

    fn range(&self, start: &Bytes, end: &Bytes) -> impl Iterator<Item = (&Bytes, &u64)> {
        let (start, end) = (start.min(end), end);
        self.last.range::<Bytes, _>(start..end)
    }

    /// The version that last wrote a key, if that was lately.
    pub(super) fn last_written(&self, key: &Bytes) -> Option<u64> {
        self.last.get(key).copied()
    }

    /// Notes a write of the version that is being put together.
    pub(super) fn note(&mut self, key: &Bytes, version: u64) {
        let before = self.last.insert(key.clone(), version);
        if before == Some(version) {
            return;
        }
        self.replaced.push((key.clone(), before));
        match self.by_version.back_mut() {
            Some((newest, keys)) if *newest == version => keys.push(key.clone()),
            _ => self.by_version.push_back((version, vec![key.clone()])),
        }
        self.keys += 1;
    }

    /// The version in the making was written: its notes stay.
    pub(super) fn keep(&mut self) {
        self.replaced.clear();
    }

    /// The version in the making was not written, and the next one will have its number: as if it had not been.
    pub(super) fn take_back(&mut self, version: u64) {
        if let Some((_, keys)) = self.by_version.pop_back_if(|(newest, _)| *newest == version) {
            self.keys -= keys.len();
        }
        for (key, before) in self.replaced.drain(..).rev() {
            match before {
                Some(before) => self.last.insert(key, before),
                None => self.last.remove(&key),
            };
        }
    }

    /// Forgets what no open transaction can conflict with, and more if there is too much.
    pub(super) fn forget_up_to(&mut self, oldest_snapshot: u64) {
        while let Some((version, _)) = self.by_version.front() {
            if *version > oldest_snapshot && self.keys <= KEYS_MAX {
                return;
            }
            let Some((version, keys)) = self.by_version.pop_front() else { return };
            self.forgotten = version;
            self.keys -= keys.len();
            for key in keys {
                if self.last.get(&key) == Some(&version) {
                    self.last.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn read(text: &str) -> Overlay {
        let mut overlay = Overlay::default();
        overlay.reads.keys.push(key(text));
        overlay
    }

    #[test]
    fn only_later_writes_conflict() {
        let mut recent = RecentWrites::new(4);
        recent.note(&key("a"), 5);
        recent.note(&key("b"), 6);
        assert!(!recent.allow(&read("a"), 4));
        assert!(recent.allow(&read("a"), 5));
        let mut range = Overlay::default();
        range.reads.ranges.push((key("a"), key("b")));
        assert!(recent.allow(&range, 5) && !recent.allow(&range, 4));
    }

    #[test]
    fn what_is_forgotten_is_not_believed_unchanged() {
        let mut recent = RecentWrites::new(4);
        recent.note(&key("a"), 5);
        recent.note(&key("a"), 6);
        recent.forget_up_to(5);
        assert!(!recent.allow(&read("z"), 4));
        assert!(!recent.allow(&read("a"), 5));
        recent.forget_up_to(6);
        assert!(recent.last.is_empty() && recent.keys == 0);
    }

    #[test]
    fn an_old_transaction_cannot_make_it_grow_without_bound() {
        let mut recent = RecentWrites::new(0);
        for version in 1..=KEYS_MAX as u64 + 10 {
            recent.note(&Bytes::copy_from_slice(&version.to_be_bytes()), version);
            recent.forget_up_to(0);
        }
        assert!(recent.keys <= KEYS_MAX && !recent.allow(&read("a"), 1));
        assert!(recent.allow(&Overlay::default(), 1), "a blind write conflicts with nothing");
    }

    #[test]
    fn a_version_that_was_not_written_leaves_no_trace() {
        let mut recent = RecentWrites::new(4);
        recent.note(&key("a"), 5);
        recent.keep();
        recent.note(&key("a"), 6);
        recent.note(&key("b"), 6);
        recent.take_back(6);
        assert_eq!((recent.last_written(&key("a")), recent.last_written(&key("b"))), (Some(5), None));
        assert!(recent.allow(&read("b"), 4) && recent.allow(&read("a"), 5) && recent.keys == 1);
    }
}
