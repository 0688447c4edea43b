//! The range cache: results of short range reads.
//!
//! To open a range the tree must open every memory table and every unsorted file; and a queue is
//! read a few items at a time, each time from the end of the last read. So the result of such a read is kept, also an empty
//! one, and a read that continues a cached range fetches some items more. Every commit group updates
//! the ranges that it writes to.
//!
//! As in `key_cache.rs`, an entry is valid from some version up to the newest visible one. A reader of an older snapshot, and
//! one whose range is not here, reads the tree.

use crate::RangeRead;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Longer reads are worth a look into the tree.
pub(super) const LIMIT_MAX: usize = 16;
/// So few items take some more with them. Who asks for more at a time opens ranges seldom enough: with claims of 16, copying
/// what comes next costs more than finding it again.
const FEW: usize = 4;
const AHEAD: usize = 16;
/// The bound on the items of a run: all of them together 6 MiB at most, and mostly far less.
const RUN_ITEMS_MAX: usize = FEW + AHEAD;
const ITEM_BYTES_MAX: usize = 512;
const RUNS_MAX: usize = 512;

type Items = Vec<(Bytes, Bytes)>;

pub(super) struct RangeCache(Mutex<Table>);

struct Table {
    /// The version up to which the runs hold, or are about to.
    version: u64,
    /// By their first key. No two overlap.
    runs: BTreeMap<Bytes, Run>,
}

/// Everything that there is from its first key to its end.
struct Run {
    end: Bytes,
    since: u64,
    /// In order.
    items: Items,
}

impl RangeCache {
    /// Nothing yet, of a tree that shows this version.
    pub(super) fn new(version: u64) -> Self {
        Self(Mutex::new(Table { version, runs: BTreeMap::new() }))
    }

    /// The items of a read upwards at a version; if that is not known here, how many more are worth reading.
    pub(super) fn get(&self, read: &RangeRead, version: u64) -> Result<Items, usize> {
        let table = self.0.lock();
        let before = table.runs.range::<Bytes, _>(..=&read.start).next_back();
        let Some((_, run)) = before.filter(|(_, run)| read.start <= run.end && run.since <= version) else {
            return Err(0);
        };
        let from = run.items.partition_point(|(key, _)| *key < read.start);
        let found = run.items[from..].iter().take_while(|(key, _)| *key < read.end).take(read.limit);
        let items: Items = found.cloned().collect();
        match items.len() == read.limit || read.end <= run.end {
            true => Ok(items),
            false if read.limit <= FEW => Err(AHEAD),
            false => Err(0),
        }
    }

    /// Keeps the first items that the tree has of a range at a version, or all of them, unless something was shown since.
    pub(super) fn keep(&self, read: &RangeRead, version: u64, items: &[(Bytes, Bytes)], all: bool) {
        if items.len() > RUN_ITEMS_MAX || read.limit > FEW && !all {
            return;
        }
        // What stands before the first large one can be kept.
        let large = items.iter().position(|(key, value)| key.len() + value.len() > ITEM_BYTES_MAX);
        let (items, all) = (&items[..large.unwrap_or(items.len())], all && large.is_none());
        if items.is_empty() && large.is_some() {
            return;
        }
        let end = match items.last() {
            Some((last, _)) if !all => Bytes::from([last, &[0][..]].concat()), // the next key after it
            _ => read.end.clone(),
        };
        // Copies: the tree's are parts of much larger pieces.
        let copy = |(key, value): &(Bytes, Bytes)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let run = Run { end, since: version, items: items.iter().map(copy).collect() };
        let start = Bytes::copy_from_slice(&read.start);
        let mut table = self.0.lock();
        if table.version == version {
            table.add(start, run);
        }
    }

    /// A version is about to be shown.
    pub(super) fn show(&self, version: u64, writes: &[(Bytes, Option<Bytes>)]) {
        let mut table = self.0.lock();
        table.version = version;
        if table.runs.is_empty() {
            return;
        }
        for (key, value) in writes {
            let Some((start, run)) = table.runs.range_mut::<Bytes, _>(..=key).next_back() else { continue };
            if *key < run.end && !run.write(version, key, value.as_ref()) {
                let start = start.clone();
                table.runs.remove(&start);
            }
        }
    }
}

impl Table {
    fn add(&mut self, start: Bytes, run: Run) {
        let before = self.runs.range::<Bytes, _>(..&start).next_back().filter(|(_, before)| before.end >= start);
        let mut replaced: Vec<Bytes> = before.map(|(first, _)| first.clone()).into_iter().collect();
        replaced.extend(self.runs.range::<Bytes, _>(&start..&run.end).map(|(first, _)| first.clone()));
        for first in replaced {
            self.runs.remove(&first);
        }
        if self.runs.len() >= RUNS_MAX {
            self.runs.clear(); // those that are in use are soon here again
        }
        self.runs.insert(start, run);
    }
}

impl Run {
    /// Says whether it is still worth keeping.
    fn write(&mut self, version: u64, key: &Bytes, value: Option<&Bytes>) -> bool {
        self.since = version;
        if value.is_some_and(|value| key.len() + value.len() > ITEM_BYTES_MAX) {
            return false;
        }
        let value = value.map(|value| Bytes::copy_from_slice(value));
        match (self.items.binary_search_by(|(held, _)| held.cmp(key)), value) {
            (Ok(place), Some(value)) => self.items[place].1 = value,
            (Ok(place), None) => drop(self.items.remove(place)),
            (Err(place), Some(value)) => self.items.insert(place, (Bytes::copy_from_slice(key), value)),
            (Err(_), None) => {}
        }
        if self.items.len() > RUN_ITEMS_MAX
            && let Some((last, _)) = self.items.pop()
        {
            self.end = last;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn write(key: &str, value: &str) -> (Bytes, Option<Bytes>) {
        (bytes(key), Some(bytes(value)))
    }

    fn item(key: &str, value: &str) -> (Bytes, Bytes) {
        (bytes(key), bytes(value))
    }

    fn read(start: &str, limit: usize) -> RangeRead {
        RangeRead::new(bytes(start), bytes("z"), limit)
    }

    #[test]
    fn an_empty_range_is_known_until_something_is_written_to_it_and_that_is_known_too() {
        let ranges = RangeCache::new(4);
        assert_eq!(ranges.get(&read("q", 1), 4), Err(0));
        ranges.keep(&read("q", 1), 4, &Vec::new(), true);
        assert_eq!(ranges.get(&read("q", 1), 4), Ok(vec![]));
        ranges.show(5, &[write("p", "elsewhere"), write("q1", "one")]);
        assert_eq!(ranges.get(&read("q", 1), 5), Ok(vec![item("q1", "one")]));
        assert_eq!(ranges.get(&read("q", 1), 4), Err(0), "an older state");
        ranges.show(6, &[(bytes("q1"), None)]);
        assert_eq!(ranges.get(&read("q", 1), 6), Ok(vec![]));
    }

    #[test]
    fn who_goes_on_reads_ahead() {
        let ranges = RangeCache::new(4);
        ranges.keep(&read("q", 1), 4, &[item("q1", "one")], false);
        assert_eq!(ranges.get(&read("q1", 1), 4), Ok(vec![item("q1", "one")]));
        assert_eq!(ranges.get(&read("q1", 2), 4), Err(AHEAD), "what is behind it is not known");
        assert_eq!(ranges.get(&read("q1\0", 1), 4), Err(AHEAD), "from its end on");
        assert_eq!(ranges.get(&read("q2", 1), 4), Err(0), "elsewhere");
    }

    #[test]
    fn what_was_read_before_the_last_group_is_not_kept() {
        let ranges = RangeCache::new(4);
        ranges.show(5, &[write("q1", "one")]);
        ranges.keep(&read("q", 1), 4, &Vec::new(), true);
        assert_eq!(ranges.get(&read("q", 1), 5), Err(0));
    }

    #[test]
    fn what_stands_before_a_large_item_is_kept() {
        let (ranges, large) = (RangeCache::new(4), (bytes("q2"), Bytes::from(vec![0; ITEM_BYTES_MAX])));
        ranges.keep(&read("q", 1), 4, &[item("q1", "one"), large.clone()], true);
        assert_eq!(ranges.get(&read("q", 1), 4), Ok(vec![item("q1", "one")]));
        assert_eq!(ranges.get(&read("q", 2), 4), Err(AHEAD), "the large one is the tree's");
        ranges.keep(&read("r", 1), 4, &[large], false);
        assert_eq!(ranges.get(&read("r", 1), 4), Err(0));
    }

    #[test]
    fn it_stays_small() {
        let ranges = RangeCache::new(1);
        for number in 0..4 * RUNS_MAX {
            ranges.keep(&read(&format!("q{number:05}"), 1), 1, &[item(&format!("q{number:05}"), "")], false);
            assert!(ranges.0.lock().runs.len() <= RUNS_MAX);
        }
        let ranges = RangeCache::new(1);
        ranges.keep(&read("q", 1), 1, &Vec::new(), true);
        for number in 0..100 {
            ranges.show(2 + number, &[write(&format!("q{number:05}"), "")]);
            assert!(ranges.0.lock().runs[&bytes("q")].items.len() <= RUN_ITEMS_MAX);
        }
        assert_eq!(ranges.get(&read("q", 16), 101).map(|items| items.len()), Ok(16));
        let large = Some(Bytes::from(vec![0; ITEM_BYTES_MAX]));
        ranges.show(102, &[(bytes("q00000"), large)]);
        assert_eq!(ranges.get(&read("q", 1), 102), Err(0));
    }

    proptest! {
        /// Readers of the newest and of older states, with groups in between: what it knows is what was written.
        #[test]
        fn it_never_contradicts_the_history(
            steps in prop::collection::vec((0..40u8, 1..40u8, 1..6usize, 0..3u64, prop::collection::vec((0..40u8, any::<bool>()), 0..3)), 1..150)
        ) {
            let (ranges, mut history) = (RangeCache::new(0), vec![BTreeMap::<Bytes, Bytes>::new()]);
            let key = |byte: u8| Bytes::copy_from_slice(&[byte]);
            for (start, length, limit, back, group) in steps {
                let newest = history.len() as u64 - 1;
                let version = newest.saturating_sub(back);
                let state = &history[usize::try_from(version).unwrap()];
                let read = RangeRead::new(key(start), key(start + length), limit);
                let mut held = state.range(read.start.clone()..read.end.clone()).map(|(key, value)| (key.clone(), value.clone()));
                match ranges.get(&read, version) {
                    Ok(found) => prop_assert_eq!(found, held.take(limit).collect::<Vec<_>>()),
                    Err(ahead) => {
                        let items: Items = held.by_ref().take(limit + ahead).collect();
                        let all = items.len() < limit + ahead;
                        ranges.keep(&read, version, &items, all);
                    }
                }
                if !group.is_empty() {
                    let mut next = history[history.len() - 1].clone();
                    let writes: BTreeMap<_, _> = group.into_iter().map(|(byte, put)| (key(byte), put.then(|| key(length)))).collect();
                    for (key, value) in &writes {
                        match value {
                            Some(value) => drop(next.insert(key.clone(), value.clone())),
                            None => drop(next.remove(key)),
                        }
                    }
                    history.push(next);
                    ranges.show(newest + 1, &writes.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}
