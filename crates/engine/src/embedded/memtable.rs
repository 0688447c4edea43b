//! The memtable: commits that are in no file of the tree yet.
//!
//! A commit group is added as one sorted run. Adding it searches and moves nothing, and a run never
//! changes: readers hold references to the runs that they read, without locks. To keep their number low, small runs are merged
//! eight at a time after their commits are answered, and larger ones by the janitor. Runs do not overlap in time: the entry of a newer
//! run is newer than every entry of an older one.

use crate::recent::Writes;
use bytes::Bytes;
use std::{cmp::Ordering, mem::size_of, ops::Range, sync::Arc};

/// So many small runs become one.
const SMALL_RUNS_MAX: usize = 8;
/// The bound on what a publishing thread merges by itself: some microseconds of work, once in eight groups.
const SMALL_ENTRIES_MAX: usize = 1_024;
/// So many that are not large become one, in the background.
const RUNS_MAX: usize = 24;
const LARGE_ENTRIES_MIN: usize = 4_096;

/// The value of a key from a sequence number on: the states above the number see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Bytes,
    pub(super) seqno: u64,
    /// `None` if it was deleted.
    pub(super) value: Option<Bytes>,
}

/// In order of keys; of one key, the newest first.
pub(super) type Run = Vec<Entry>;

/// The writes of a group, each with the same number.
pub(super) fn run_of(writes: Writes, seqno: u64) -> Run {
    debug_assert!(writes.is_sorted_by(|(one, _), (other, _)| one <= other), "a group is in order");
    let mut run = Run::with_capacity(writes.len());
    for (key, value) in writes {
        match run.last_mut() {
            Some(last) if last.key == key => last.value = value, // the later of two holds
            _ => run.push(Entry { key, seqno, value }),
        }
    }
    run
}

/// Memtable in order of time, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Memtable {
    runs: Vec<Arc<Run>>,
    /// The bytes of all that was written, with overwritten entries: a value keeps the whole frame that it is a part of.
    bytes: usize,
}

impl Memtable {
    /// `frame_bytes` is what its values are parts of.
    pub(super) fn push(&mut self, run: Arc<Run>, frame_bytes: usize) {
        self.bytes += frame_bytes + run.len() * size_of::<Entry>();
        self.runs.push(run);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a key in a state, if it is known here: `Some(None)` if it was deleted.
    pub(super) fn get(&self, key: &[u8], seqno: u64) -> Option<Option<Bytes>> {
        self.runs.iter().rev().find_map(|run| {
            let place = run.partition_point(|entry| match entry.key[..].cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => entry.seqno >= seqno,
                Ordering::Greater => false,
            });
            run.get(place).filter(|entry| entry.key == key).map(|entry| entry.value.clone())
        })
    }

    /// The last runs, if they are small and many.
    pub(super) fn small(&self) -> Option<Merge> {
        let size = |run: &Arc<Run>| run.len().max(1).ilog2() / SMALL_RUNS_MAX.ilog2();
        let newest = size(self.runs.last()?);
        let merge = self.merge_from(self.last_while(|run| size(run) <= newest));
        let entries: usize = merge.runs.iter().map(|run| run.len()).sum();
        (merge.runs.len() >= SMALL_RUNS_MAX && entries <= SMALL_ENTRIES_MAX).then_some(merge)
    }

    pub(super) fn are_many(&self) -> bool {
        self.runs.len() - self.last_while(is_not_large) >= RUNS_MAX
    }

    /// The last runs up to a large one, if they are many.
    pub(super) fn many(&self) -> Option<Merge> {
        self.are_many().then(|| self.merge_from(self.last_while(is_not_large)))
    }

    /// Where the last of them begin.
    fn last_while(&self, of: impl Fn(&Arc<Run>) -> bool) -> usize {
        self.runs.iter().rposition(|run| !of(run)).map_or(0, |place| place + 1)
    }

    fn merge_from(&self, at: usize) -> Merge {
        Merge { at, runs: self.runs[at..].to_vec() }
    }

    /// Puts a merged run in the place of those that it was made of, if they are still there.
    pub(super) fn replace(&mut self, merge: &Merge, merged: &Arc<Run>) {
        let places = merge.at..merge.at + merge.runs.len();
        let there = self.runs.get(places.clone());
        if there.is_some_and(|there| there.iter().zip(&merge.runs).all(|(one, other)| Arc::ptr_eq(one, other))) {
            self.runs.splice(places, [merged.clone()]);
        }
    }
}

fn is_not_large(run: &Arc<Run>) -> bool {
    run.len() < LARGE_ENTRIES_MIN
}

/// Neighbours that are to become one.
pub(super) struct Merge {
    at: usize,
    runs: Vec<Arc<Run>>,
}

impl Merge {
    /// All that a state from `oldest` on can see.
    pub(super) fn run(&self, oldest: u64) -> Arc<Run> {
        Arc::new(Merged::new(self.runs.iter().map(Part::whole).collect(), false).still_seen(oldest).collect())
    }
}

/// The entries of a run that are still to come.
struct Part {
    run: Arc<Run>,
    rest: Range<usize>,
}

impl Part {
    fn whole(run: &Arc<Run>) -> Self {
        Self { run: run.clone(), rest: 0..run.len() }
    }

    /// `None` if nothing is there.
    fn between(run: &Arc<Run>, start: &[u8], end: &[u8]) -> Option<Self> {
        let from = run.partition_point(|entry| entry.key[..] < *start);
        run.get(from).filter(|entry| entry.key[..] < *end)?;
        let to = from + run[from..].partition_point(|entry| entry.key[..] < *end);
        Some(Self { run: run.clone(), rest: from..to })
    }
}

/// The entries of several runs in order, or in the very opposite order.
pub(super) struct Merged {
    /// Oldest first.
    parts: Vec<Part>,
    /// Those with something left, by what comes next of them.
    order: Vec<usize>,
    reverse: bool,
}

impl Merged {
    /// All of some tables, oldest first.
    pub(super) fn all<'a>(tables: impl Iterator<Item = &'a Memtable>) -> Self {
        Self::new(tables.flat_map(|table| &table.runs).map(Part::whole).collect(), false)
    }

    /// A range of some tables, oldest first.
    pub(super) fn range<'a>(
        tables: impl Iterator<Item = &'a Memtable>,
        start: &[u8],
        end: &[u8],
        reverse: bool,
    ) -> Self {
        let runs = tables.flat_map(|table| &table.runs);
        Self::new(runs.filter_map(|run| Part::between(run, start, end)).collect(), reverse)
    }

    fn new(parts: Vec<Part>, reverse: bool) -> Self {
        let mut order: Vec<_> = (0..parts.len()).filter(|part| !parts[*part].rest.is_empty()).collect();
        let mut merged = Self { parts, order: Vec::new(), reverse };
        order.sort_by(|one, other| merged.compare(*one, *other));
        merged.order = order;
        merged
    }

    /// The part of a state that is known here: the keys with their values, and those that were deleted.
    pub(super) fn held(self, seqno: u64) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
        let reverse = self.reverse;
        let mut entries = self.filter(move |entry| entry.seqno < seqno).peekable();
        std::iter::from_fn(move || {
            let Entry { key, mut value, .. } = entries.next()?;
            while let Some(other) = entries.next_if(|other| other.key == key) {
                if reverse {
                    value = other.value; // downwards, the newest comes last
                }
            }
            Some((key, value))
        })
    }

    /// Leaves out what is overwritten for every state from `oldest` on. Deletions stay: they hide what lies in files. Upwards only.
    pub(super) fn still_seen(self, oldest: u64) -> impl Iterator<Item = Entry> {
        let mut entries = self.peekable();
        std::iter::from_fn(move || {
            let entry = entries.next()?;
            if entry.seqno < oldest {
                while entries.next_if(|older| older.key == entry.key).is_some() {}
            }
            Some(entry)
        })
    }

    fn next_of(&self, part: usize) -> &Entry {
        let Part { run, rest } = &self.parts[part];
        &run[if self.reverse { rest.end - 1 } else { rest.start }]
    }

    /// Upwards, of one key the newest comes first.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let upwards = self.next_of(one).key.cmp(&self.next_of(other).key).then(other.cmp(&one));
        if self.reverse { upwards.reverse() } else { upwards }
    }
}

impl Iterator for Merged {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let &first = self.order.first()?;
        let entry = self.next_of(first).clone();
        let rest = &mut self.parts[first].rest;
        *rest = if self.reverse { rest.start..rest.end - 1 } else { rest.start + 1..rest.end };
        if rest.start == rest.end {
            self.order.remove(0);
        } else if self.order.get(1).is_some_and(|second| self.compare(*second, first).is_lt()) {
            let before = self.order[2..].partition_point(|other| self.compare(*other, first).is_lt());
            self.order[..before + 2].rotate_left(1);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type State = BTreeMap<u8, u8>;

    fn bytes(byte: u8) -> Bytes {
        Bytes::copy_from_slice(&[byte])
    }

    /// Groups of a few writes to a few keys, and all states after them.
    fn history(groups: Vec<Vec<(u8, Option<u8>)>>) -> (Vec<Run>, Vec<State>) {
        let mut states = vec![State::new()];
        let mut runs = Vec::new();
        for (mut group, seqno) in groups.into_iter().zip(0..) {
            let mut state = states[states.len() - 1].clone();
            for (key, value) in &group {
                match value {
                    Some(value) => state.insert(*key, *value),
                    None => state.remove(key),
                };
            }
            states.push(state);
            group.sort_by_key(|(key, _)| *key);
            let writes = group.into_iter().map(|(key, value)| (bytes(key), value.map(bytes))).collect();
            runs.push(run_of(writes, seqno));
        }
        (runs, states)
    }

    fn items(of: impl Iterator<Item = (Bytes, Option<Bytes>)>) -> Vec<(u8, u8)> {
        of.filter_map(|(key, value)| Some((key[0], value?[0]))).collect()
    }

    proptest! {
        #[test]
        fn every_state_is_seen_as_it_was(
            groups in prop::collection::vec(prop::collection::vec((0..12u8, any::<Option<u8>>()), 1..6), 1..40),
            merges in prop::collection::vec(any::<bool>(), 40),
            oldest in 0..40u64,
            start in 0..12u8,
            end in 0..14u8,
        ) {
            let (history, states) = history(groups);
            let mut runs = Memtable::default();
            for (run, merges) in history.into_iter().zip(merges) {
                runs.push(Arc::new(run), 0);
                if let Some(merge) = runs.small().filter(|_| merges) {
                    runs.replace(&merge, &merge.run(oldest));
                }
            }
            for (state, seqno) in states.iter().zip(0..).filter(|(_, seqno)| *seqno >= oldest) {
                for key in 0..12 {
                    let found = runs.get(&[key], seqno).flatten();
                    prop_assert_eq!(found, state.get(&key).copied().map(bytes));
                }
                let expected: Vec<_> = state.range(start..end.max(start)).map(|(key, value)| (*key, *value)).collect();
                let found = |reverse| items(Merged::range([&runs].into_iter(), &[start], &[end], reverse).held(seqno));
                prop_assert_eq!(&found(false), &expected);
                prop_assert_eq!(found(true), expected.into_iter().rev().collect::<Vec<_>>());
            }
            let newest: Vec<_> = Merged::all([&runs].into_iter()).still_seen(u64::MAX).map(|entry| (entry.key, entry.value)).collect();
            prop_assert!(newest.is_sorted_by(|(one, _), (other, _)| one < other), "only the newest of each key");
            prop_assert_eq!(items(newest.into_iter()), states[states.len() - 1].clone().into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn runs_stay_few() {
        let mut runs = Memtable::default();
        for number in 0..20_000u32 {
            let key = Bytes::copy_from_slice(&number.to_be_bytes());
            runs.push(Arc::new(vec![Entry { key, seqno: u64::from(number), value: None }]), 0);
            while let Some(merge) = runs.small() {
                runs.replace(&merge, &merge.run(0));
            }
            assert!(runs.runs.len() <= RUNS_MAX + number as usize / LARGE_ENTRIES_MIN);
            if let Some(merge) = runs.many() {
                runs.replace(&merge, &merge.run(0));
            }
        }
        assert_eq!(runs.runs.iter().map(|run| run.len()).sum::<usize>(), 20_000);
    }

    #[test]
    fn a_merge_that_comes_too_late_changes_nothing() {
        let one = |seqno| Arc::new(vec![Entry { key: bytes(1), seqno, value: Some(bytes(7)) }]);
        let mut runs = Memtable::default();
        (0..SMALL_RUNS_MAX as u64).for_each(|seqno| runs.push(one(seqno), 0));
        let merge = runs.small().unwrap();
        runs.replace(&merge, &merge.run(0));
        assert_eq!(runs.runs.len(), 1);
        runs.push(one(100), 0);
        runs.replace(&merge, &merge.run(u64::MAX));
        assert_eq!(runs.runs.iter().map(|run| run.len()).collect::<Vec<_>>(), [SMALL_RUNS_MAX, 1]);
    }
}
