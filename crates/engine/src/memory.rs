//! The reference engine: everything in one map behind one lock, simple enough to be obviously right.
//!
//! Every key keeps its versions. A transaction reads the versions of its snapshot; its commit looks
//! whether anything that it read has a newer one. Nothing survives the process.

use crate::{
    CommitError, Committed, Engine, EngineError, Page, RangeRead, Transaction,
    overlay::{Overlay, Write, added},
    watch::Watches,
};
use bytes::Bytes;
use mundi_model::{Stamp, limits};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Bound,
    sync::Arc,
};

type Version = u64;

/// Milliseconds of any clock that does not go back; it decides when a transaction is too old.
pub type ClockMs = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    watches: Watches,
    clock_ms: ClockMs,
}

#[derive(Default)]
struct State {
    /// The versions of each key, oldest first; `None` is a deletion.
    keys: BTreeMap<Bytes, Vec<(Version, Option<Bytes>)>>,
    newest: Version,
    /// Which keys each commit touched, until no open transaction is older than it.
    history: VecDeque<(Version, Vec<Bytes>)>,
    /// How many open transactions read each version.
    open: BTreeMap<Version, usize>,
}

impl Memory {
    /// An empty store in which time is suspended: transactions do not grow old.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(|| 0))
    }

    /// An empty store whose transactions grow old by this clock.
    pub fn with_clock(clock_ms: ClockMs) -> Self {
        Self { state: Arc::default(), watches: Watches::default(), clock_ms }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("newest", &self.state.lock().newest).finish_non_exhaustive()
    }
}

impl Engine for Memory {
    type Transaction = MemoryTransaction;

    async fn begin(&self) -> Result<MemoryTransaction, EngineError> {
        let mut state = self.state.lock();
        let snapshot = state.newest;
        *state.open.entry(snapshot).or_default() += 1;
        drop(state);
        let begun_ms = (self.clock_ms)();
        Ok(MemoryTransaction { engine: self.clone(), snapshot, begun_ms, overlay: Overlay::default() })
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let state = self.state.clone();
        self.watches.clone().until(Bytes::copy_from_slice(key), move |key| {
            let state = state.lock();
            Ok(state.value(key, state.newest) != seen)
        })
    }
}

pub struct MemoryTransaction {
    engine: Memory,
    snapshot: Version,
    begun_ms: u64,
    overlay: Overlay,
}

impl MemoryTransaction {
    fn check_age(&self) -> Result<(), EngineError> {
        let age_ms = (self.engine.clock_ms)().saturating_sub(self.begun_ms);
        if age_ms > limits::TRANSACTION_AGE_MS_MAX { Err(EngineError::TooOld) } else { Ok(()) }
    }

    fn read(&mut self, key: &[u8], depends: bool) -> Result<Option<Bytes>, EngineError> {
        self.check_age()?;
        let state = self.engine.state.lock();
        self.overlay.get(key, depends, |key| Ok(state.value(key, self.snapshot)))
    }
}

impl Transaction for MemoryTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        Ok(self.snapshot)
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, true)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, false)
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.check_age()?;
        let state = self.engine.state.lock();
        self.overlay.range(&read, state.items(&read, self.snapshot))
    }

    crate::forward_writes!(overlay);

    async fn commit(mut self) -> Result<Committed, CommitError> {
        if self.overlay.is_read_only() {
            return Ok(Committed::ReadOnly);
        }
        if self.check_age().is_err() {
            return Err(CommitError::Conflict);
        }
        let mut state = self.engine.state.lock();
        if state.has_newer(&self.overlay, self.snapshot) {
            return Err(CommitError::Conflict);
        }
        let stamp = Stamp::new(state.newest + 1, 0);
        let writes = state.resolve(&mut self.overlay, stamp)?;
        state.apply(writes);
        if let Some((_, keys)) = state.history.back() {
            self.engine.watches.wake(keys.iter());
        }
        Ok(Committed::At(stamp))
    }
}

impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        self.engine.state.lock().close(self.snapshot);
    }
}

impl State {
    fn value(&self, key: &[u8], snapshot: Version) -> Option<Bytes> {
        visible(self.keys.get(key)?, snapshot)
    }

    /// The items of a range at a snapshot, in the order of the read.
    fn items<'a>(
        &'a self,
        read: &RangeRead,
        snapshot: Version,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), EngineError>> + 'a {
        let end = read.end.clone().max(read.start.clone());
        let bounds = (Bound::Included(read.start.clone()), Bound::Excluded(end));
        let keys = self.keys.range::<Bytes, _>(bounds);
        let keys: Box<dyn Iterator<Item = _>> = if read.reverse { Box::new(keys.rev()) } else { Box::new(keys) };
        keys.filter_map(move |(key, versions)| Some(Ok((key.clone(), visible(versions, snapshot)?))))
    }

    /// Whether anything that the transaction depends on has changed since its snapshot.
    fn has_newer(&self, overlay: &Overlay, snapshot: Version) -> bool {
        let is_newer = |versions: &Vec<(Version, _)>| versions.last().is_some_and(|(version, _)| *version > snapshot);
        overlay.reads.keys.iter().any(|key| self.keys.get(key).is_some_and(is_newer))
            || overlay
                .reads
                .ranges
                .iter()
                .any(|(start, end)| self.keys.range(start.clone()..end.clone()).any(|(_, versions)| is_newer(versions)))
    }

    /// The new value of each key, with ranges, additions and stamps filled in.
    fn resolve(&self, overlay: &mut Overlay, stamp: Stamp) -> Result<BTreeMap<Bytes, Option<Bytes>>, EngineError> {
        let mut writes = BTreeMap::new();
        for (start, end) in std::mem::take(&mut overlay.cleared) {
            for (key, versions) in self.keys.range(start..end) {
                if visible(versions, self.newest).is_some() && writes.insert(key.clone(), None).is_none() {
                    overlay.count_cleared(key.len())?;
                }
            }
        }
        for (key, write) in std::mem::take(&mut overlay.writes).into_writes() {
            let value = match write {
                Write::Put(value) => Some(value),
                Write::Delete => None,
                Write::Add(delta) => Some(added(self.value(&key, self.newest).as_ref(), delta)),
            };
            writes.insert(key, value);
        }
        writes.extend(overlay.stamped.drain(..).map(|put| (put.key(stamp), Some(put.value))));
        Ok(writes)
    }

    fn apply(&mut self, writes: BTreeMap<Bytes, Option<Bytes>>) {
        self.newest += 1;
        let touched = writes.keys().cloned().collect();
        for (key, value) in writes {
            self.keys.entry(key).or_default().push((self.newest, value));
        }
        self.history.push_back((self.newest, touched));
    }

    /// A transaction ends: versions that no open one can see any more are forgotten.
    fn close(&mut self, snapshot: Version) {
        if let Some(count) = self.open.get_mut(&snapshot) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&snapshot);
            }
        }
        let oldest = self.open.keys().next().copied().unwrap_or(self.newest);
        while self.history.front().is_some_and(|(version, _)| *version <= oldest) {
            let Some((_, touched)) = self.history.pop_front() else { return };
            for key in touched {
                self.forget(&key, oldest);
            }
        }
    }

    /// Keeps the newest version that `oldest` can see, and all newer ones; a deletion alone is nothing.
    fn forget(&mut self, key: &Bytes, oldest: Version) {
        let Some(versions) = self.keys.get_mut(key) else { return };
        let seen = versions.iter().rposition(|(version, _)| *version <= oldest).unwrap_or(0);
        versions.drain(..seen);
        if matches!(versions[..], [(version, None)] if version <= oldest) {
            self.keys.remove(key);
        }
    }
}

fn visible(versions: &[(Version, Option<Bytes>)], snapshot: Version) -> Option<Bytes> {
    let (_, value) = versions.iter().rev().find(|(version, _)| *version <= snapshot)?;
    value.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollster::block_on;

    #[test]
    fn versions_are_forgotten_once_nobody_can_see_them() {
        block_on(async {
            let engine = Memory::new();
            for round in 0..100u8 {
                let mut tx = engine.begin().await.unwrap();
                tx.put(b"kept", vec![round]).unwrap();
                tx.put(&[b'q', round], vec![]).unwrap();
                tx.commit().await.unwrap();
                let mut tx = engine.begin().await.unwrap();
                tx.delete(&[b'q', round]).unwrap();
                tx.commit().await.unwrap();
            }
            let state = engine.state.lock();
            assert_eq!(state.keys.len(), 1, "{:?}", state.keys);
            assert_eq!(state.keys[&b"kept"[..]].len(), 1);
            assert!(state.history.is_empty() && state.open.is_empty());
        });
    }
}
