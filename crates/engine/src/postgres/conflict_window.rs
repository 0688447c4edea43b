//! The conflict window: recent commits of all processes that this one knows of.
//!
//! The sequencer and the follower both add commits, in order of versions and without gaps; a version that is known already is
//! ignored. A new commit wakes the watchers of its keys.

use super::value_cache::{ValueCache, Why};
use crate::{
    overlay::Overlay,
    recent::{RecentWrites, Writes},
    watch::Watches,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Clone)]
pub(super) struct ConflictWindow(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    watches: Watches,
    /// Commit groups of this process.
    own_groups: AtomicU64,
}

struct State {
    recent: RecentWrites,
    /// All commits up to this version are known, or forgotten.
    version: u64,
    /// How many open transactions read at this version or a later one.
    open: BTreeMap<u64, usize>,
    value_cache: ValueCache,
}

/// One version and the keys that it wrote.
pub(super) type News = (u64, Writes);

impl ConflictWindow {
    pub(super) fn new(version: u64) -> Self {
        let state = State {
            recent: RecentWrites::new(version),
            version,
            open: BTreeMap::new(),
            value_cache: ValueCache::default(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), watches: Watches::default(), own_groups: AtomicU64::new(0) }))
    }

    pub(super) fn watches(&self) -> &Watches {
        &self.0.watches
    }

    pub(super) fn version(&self) -> u64 {
        self.0.state.lock().version
    }

    /// How many groups this process has committed.
    pub(super) fn own_groups(&self) -> u64 {
        self.0.own_groups.load(Ordering::Relaxed)
    }

    /// A transaction is about to take its snapshot: from now on nothing is forgotten that it may conflict with.
    pub(super) fn open(&self) -> Open {
        let mut state = self.0.state.lock();
        let floor = state.version;
        *state.open.entry(floor).or_default() += 1;
        Open { conflict_window: self.clone(), floor }
    }

    /// Whether a transaction that read these at a version may still commit.
    pub(super) fn allows(&self, overlay: &Overlay, version: u64) -> bool {
        self.0.state.lock().recent.allow(overlay, version)
    }

    /// The value of a key as of the version that is returned, which may not be the newest.
    pub(super) fn recall(&self, key: &Bytes) -> Option<(Option<Bytes>, u64)> {
        let mut state = self.0.state.lock();
        let version = state.version;
        state.value_cache.get(key).map(|value| (value, version))
    }

    /// Remembers what a transaction that is still open has read at a version, unless it may have changed since.
    pub(super) fn remember(&self, key: &Bytes, value: Option<Bytes>, version: u64) {
        let mut state = self.0.state.lock();
        if state.recent.knows_unchanged(key, version) {
            state.value_cache.put(key.clone(), value, version, Why::Asked);
        }
    }

    /// As [`Self::remember`], for values that were read under the lock of the head: all of them are the newest.
    pub(super) fn remember_newest(&self, values: &BTreeMap<Bytes, Option<Bytes>>) {
        let mut state = self.0.state.lock();
        let version = state.version;
        let values = values.iter().map(|(key, value)| (key.clone(), value.clone()));
        values.for_each(|(key, value)| state.value_cache.put(key, value, version, Why::Asked));
    }

    /// Takes in what is new of this.
    pub(super) fn advance(&self, news: impl IntoIterator<Item = News>) {
        self.take_in(&mut self.0.state.lock(), news);
    }

    /// Takes in what this process has written itself: the values are known, and stay in the cache if they were asked for before, or have
    /// one of these prefixes, which are in order.
    pub(super) fn advance_own(&self, version: u64, mut writes: Writes, rereads: &[Bytes]) {
        self.0.own_groups.fetch_add(1, Ordering::Relaxed);
        let is_expected = |key: &Bytes| {
            let below = rereads.partition_point(|prefix| prefix <= key);
            below > 0 && key.starts_with(&rereads[below - 1])
        };
        let mut state = self.0.state.lock();
        if version <= state.version {
            return; // known already, and perhaps overwritten since
        }
        let mut known = Vec::new();
        for (key, value) in &mut writes {
            let value = value.take();
            let why = state.value_cache.why(key).or_else(|| is_expected(key).then_some(Why::Expected));
            if let Some(why) = why.filter(|why| *why == Why::Asked || value.is_some()) {
                known.push((key.clone(), value, why));
            }
        }
        self.take_in(&mut state, [(version, writes)]);
        for (key, value, why) in known {
            state.value_cache.put(key, value, version, why);
        }
    }

    fn take_in(&self, state: &mut State, news: impl IntoIterator<Item = News>) {
        for (version, writes) in news {
            if version <= state.version {
                continue;
            }
            if version > state.version + 1 {
                // Others have trimmed what this process never saw: it was asleep. Anything may have changed.
                state.recent = RecentWrites::new(version - 1);
                state.value_cache = ValueCache::default();
                self.0.watches.wake_all();
            }
            self.0.watches.wake(writes.iter().map(|(key, _)| key));
            writes.iter().for_each(|(key, _)| state.value_cache.forget(key, version));
            state.recent.note(version, writes);
            state.version = version;
        }
        let oldest = state.open.keys().next().copied().unwrap_or(state.version);
        let version = state.version;
        state.recent.tidy(oldest, version);
    }
}

/// A transaction that may still depend on what is written from now on.
pub(super) struct Open {
    conflict_window: ConflictWindow,
    floor: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.conflict_window.0.state.lock();
        if let Some(count) = state.open.get_mut(&self.floor) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.floor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::FutureExt;

    fn wrote(version: u64, key: &'static str) -> News {
        (version, vec![(Bytes::from_static(key.as_bytes()), None)])
    }

    fn read(key: &'static str) -> Overlay {
        let mut overlay = Overlay::default();
        overlay.reads.keys.push(Bytes::from_static(key.as_bytes()));
        overlay
    }

    #[test]
    fn news_that_come_twice_count_once_and_in_order() {
        let history = ConflictWindow::new(4);
        let _open = history.open();
        history.advance([wrote(5, "a"), wrote(6, "b")]);
        history.advance([wrote(5, "c"), wrote(6, "d")]);
        assert_eq!(history.version(), 6);
        assert!(!history.allows(&read("a"), 4) && history.allows(&read("a"), 5) && history.allows(&read("c"), 4));
    }

    #[test]
    fn after_a_gap_nothing_older_is_believed_unchanged_and_every_watch_looks_again() {
        let history = ConflictWindow::new(4);
        let _open = history.open();
        let (_watch, woken) = history.watches().place(&Bytes::from_static(b"elsewhere")).unwrap();
        history.advance([wrote(9, "a")]);
        assert!(!history.allows(&read("untouched"), 4), "versions 5 to 8 were never seen");
        assert!(history.allows(&read("untouched"), 8));
        assert_eq!(woken.now_or_never(), Some(Ok(())));
    }

    #[test]
    fn a_value_is_remembered_until_someone_else_writes_it() {
        let history = ConflictWindow::new(4);
        let (key, value) = (Bytes::from_static(b"a"), |text: &'static str| Some(Bytes::from_static(text.as_bytes())));
        let _open = history.open();
        history.remember(&key, value("read"), 4);
        assert_eq!(history.recall(&key), Some((value("read"), 4)));
        history.advance_own(5, vec![(key.clone(), value("own"))], &[]);
        assert_eq!(history.recall(&key), Some((value("own"), 5)));
        history.advance([wrote(6, "a")]);
        assert_eq!(history.recall(&key), None);
        history.remember(&key, value("old"), 5);
        assert_eq!(history.recall(&key), None, "it was read before it changed");
        history.advance_own(6, vec![(key.clone(), value("late"))], &[]);
        assert_eq!(history.recall(&key), None, "what is known already brings nothing back");
        history.advance_own(6, vec![(key.clone(), value("late"))], std::slice::from_ref(&key));
        assert_eq!(history.recall(&key), None, "nor what is expected to be asked for");
        history.remember(&key, value("new"), 6);
        history.advance([wrote(9, "elsewhere")]);
        assert_eq!(history.recall(&key), None, "versions 7 and 8 were never seen");
    }

    #[test]
    fn what_was_only_expected_is_forgotten_when_it_is_deleted() {
        let history = ConflictWindow::new(0);
        let [expected, asked] = ["e", "a"].map(|key| Bytes::from_static(key.as_bytes()));
        let value = || Some(Bytes::from_static(b"v"));
        let _open = history.open();
        history.remember(&asked, value(), 0);
        let writes = vec![(asked.clone(), value()), (expected.clone(), value())];
        history.advance_own(1, writes, std::slice::from_ref(&expected));
        assert_eq!(history.recall(&expected), Some((value(), 1)));
        history.advance_own(2, vec![(asked.clone(), None), (expected.clone(), None)], &[]);
        assert_eq!((history.recall(&expected), history.recall(&asked)), (None, Some((None, 2))));
    }

    #[test]
    fn what_an_open_transaction_may_conflict_with_is_kept() {
        let history = ConflictWindow::new(0);
        let open = history.open();
        history.advance((1..100).map(|version| wrote(version, "a")));
        assert!(!history.allows(&read("a"), 1) && history.allows(&read("b"), 1));
        drop(open);
        history.advance([wrote(100, "a")]);
        assert!(!history.allows(&read("b"), 1), "it is forgotten, and so not believed");
    }
}
