//! An engine under a microscope: every operation is counted, can be made to fail, and lets others go first.
//!
//! A test runs a protocol once to count its operations, then once per operation and kind of fault.

use bytes::Bytes;
use mundi_engine::{CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, ReadPlan, Source, Transaction};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The fault at a chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The process crashes before it.
    DieBefore,
    /// It takes effect, and the process crashes before it is notified.
    DieAfter,
    /// A commit is applied and its answer is lost; the process keeps running. Other operations are left alone.
    LoseAnswer,
    /// A commit is not applied, and nobody says so; the process keeps running. Other operations are left alone.
    LoseCommit,
    /// A commit is surely not applied; the process keeps running. Other operations are left alone.
    Conflict,
}

impl Trouble {
    pub const ALL: [Self; 5] = [Self::DieBefore, Self::DieAfter, Self::LoseAnswer, Self::LoseCommit, Self::Conflict];
}

/// The requests to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub begins: u64,
    pub gets: u64,
    pub ranges: u64,
    /// Items that ranges returned.
    pub items: u64,
    /// Puts, additions and deletions.
    pub writes: u64,
    pub commits: u64,
    /// How often an engine at the other end of a line would have had to ask: a read takes along all that was planned.
    pub trips: u64,
    /// Reads of transactions with a plan that were neither planned nor prefetched ...
    pub unplanned: u64,
    /// ... and what was planned or prefetched and not read before the commit.
    pub unread: u64,
}

impl Counts {
    /// Operations that someone waits for.
    pub fn awaited(&self) -> u64 {
        self.begins + self.gets + self.ranges + self.commits
    }
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    operation: u64,
    trouble: Option<(u64, Trouble)>,
    dead: bool,
    stalled: bool,
    refusals: u64,
    cache: Option<BTreeMap<Bytes, Cached>>,
}

/// The value that was read of a key, and the version of the first addition to it since.
type Cached = (Option<Bytes>, Option<u64>);

/// An engine around an engine. Clones share their counts and their fate.
#[derive(Debug, Clone)]
pub struct Probe<E> {
    inner: E,
    state: Arc<Mutex<State>>,
}

impl<E> Probe<E> {
    pub fn new(inner: E) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Makes trouble at this operation, counted from 0 from now on.
    pub fn arm(&self, operation: u64, trouble: Trouble) {
        let mut state = self.state.lock();
        (state.operation, state.trouble, state.dead) = (0, Some((operation, trouble)), false);
    }

    /// A new process, without trouble. Operations count from 0 again.
    pub fn revive(&self) {
        *self.state.lock() = State::default();
    }

    /// From now on no transaction begins, and nobody is told why: as a database that does not answer. [`Self::revive`] ends it.
    pub fn stall(&self) {
        self.state.lock().stalled = true;
    }

    /// So many transactions are refused, because the engine is busy, before one begins again.
    pub fn refuse(&self, transactions: u64) {
        self.state.lock().refusals = transactions;
    }

    /// From now on it has a cache of what planned transactions read, and learns of no addition to it before the next read: as a process whose
    /// line is slow.
    pub fn remember(&self) {
        self.state.lock().cache = Some(BTreeMap::new());
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Awaited operations since the probe was armed or revived.
    pub fn operations(&self) -> u64 {
        self.state.lock().operation
    }
}

/// The fault of the next operation.
fn next(state: &Mutex<State>, is_commit: bool) -> Result<Option<Trouble>, EngineError> {
    let mut state = state.lock();
    if state.dead {
        return Err(EngineError::Closed);
    }
    let operation = state.operation;
    state.operation += 1;
    let trouble = state.trouble.filter(|(at, _)| *at == operation).map(|(_, trouble)| trouble);
    let trouble = trouble.filter(|trouble| is_commit || matches!(trouble, Trouble::DieBefore | Trouble::DieAfter));
    state.dead = matches!(trouble, Some(Trouble::DieBefore | Trouble::DieAfter));
    if trouble == Some(Trouble::DieBefore) { Err(EngineError::Closed) } else { Ok(trouble) }
}

/// Death after an operation that has no effect outside is death before the next one.
fn end<V>(trouble: Option<Trouble>, value: V) -> Result<V, EngineError> {
    if trouble == Some(Trouble::DieAfter) { Err(EngineError::Closed) } else { Ok(value) }
}

pub struct ProbeTransaction<T> {
    inner: T,
    state: Arc<Mutex<State>>,
    source: Option<Source>,
    waiting: Vec<Read>,
    fetched: Vec<Read>,
    read: Vec<Read>,
    /// Keys that it adds to, and keys that it writes otherwise.
    added: Vec<Bytes>,
    written: Vec<Bytes>,
    /// The version of what the cache answered, and whether all of it was true.
    cached: Option<(u64, bool)>,
}

impl<T> ProbeTransaction<T> {
    fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.state.lock().counts);
    }

    fn count_trip(&mut self, read: Read) {
        let is_planned = self.waiting.contains(&read) || self.fetched.contains(&read);
        self.count(|counts| counts.unplanned += u64::from(self.source.is_some() && !is_planned));
        self.read.push(read.clone());
        if !self.fetched.contains(&read) {
            self.fetched.append(&mut self.waiting);
            self.fetched.push(read);
            self.count(|counts| counts.trips += 1);
        }
    }

    fn count_unread(&self) {
        let planned = self.fetched.iter().chain(&self.waiting);
        let unread = planned.filter(|read| !self.read.contains(read)).count() as u64;
        self.count(|counts| counts.unread += unread);
    }
}

impl<E: Engine> Probe<E> {
    async fn begun(
        &self,
        source: Option<Source>,
        reads: Vec<Read>,
    ) -> Result<ProbeTransaction<E::Transaction>, EngineError> {
        others_first().await;
        let is_stalled = self.state.lock().stalled;
        if is_stalled {
            std::future::pending::<()>().await;
        }
        let is_refused = {
            let mut state = self.state.lock();
            let is_refused = state.refusals > 0;
            state.refusals = state.refusals.saturating_sub(1);
            is_refused
        };
        if is_refused {
            return Err(EngineError::Busy { what: "the probe", max: 0 });
        }
        let trouble = next(&self.state, false)?;
        self.state.lock().counts.begins += 1;
        let inner = self.inner.begin().await?;
        let waiting = reads.into_iter().map(as_fetched).collect();
        let (state, cached) = (self.state.clone(), None);
        let [added, written] = [Vec::new(), Vec::new()];
        let [fetched, read] = [Vec::new(), Vec::new()];
        end(trouble, ProbeTransaction { inner, state, source, waiting, fetched, read, added, written, cached })
    }
}

impl<T: Transaction> ProbeTransaction<T> {
    /// The value of a key in the cache. A commit conflicts if it depends on a value that is not true any more.
    async fn recall(&mut self, key: &[u8]) -> Result<Option<Option<Bytes>>, EngineError> {
        let found = self.state.lock().cache.as_ref().and_then(|cache| cache.get(key).cloned());
        let Some((value, added_at)) = found.filter(|_| self.source == Some(Source::Cache)) else { return Ok(None) };
        let is_true = self.inner.get(key).await? == value;
        let version = match added_at {
            Some(version) => version - 1,
            None => self.inner.version().await?,
        };
        let (before, were_true) = self.cached.unwrap_or((version, true));
        self.cached = Some((before.min(version), were_true && is_true));
        Ok(Some(value))
    }

    fn remember(&self, key: &[u8], value: Option<&Bytes>) {
        if let Some(cache) = self.state.lock().cache.as_mut().filter(|_| self.source.is_some()) {
            cache.insert(Bytes::copy_from_slice(key), (value.cloned(), None));
        }
    }
}

impl<E: Engine> Engine for Probe<E> {
    type Transaction = ProbeTransaction<E::Transaction>;

    async fn begin(&self) -> Result<Self::Transaction, EngineError> {
        self.begun(None, Vec::new()).await
    }

    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<Self::Transaction>, EngineError> {
        if source == Source::Cache && self.state.lock().cache.is_none() {
            return Ok(None);
        }
        let reads = plan().reads;
        let source = (!reads.is_empty()).then_some(source);
        self.begun(source, reads).await.map(Some)
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        self.inner.watch(key, seen)
    }
}

impl<T: Transaction> Transaction for ProbeTransaction<T> {
    async fn version(&mut self) -> Result<u64, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        let version = match self.cached {
            Some((version, _)) => version,
            None => self.inner.version().await?,
        };
        end(trouble, version)
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        let reads: Vec<Read> = reads().into_iter().collect();
        self.waiting.extend(reads.iter().cloned().map(as_fetched));
        self.inner.prefetch(|| reads);
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.count(|counts| counts.gets += 1);
        self.count_trip(Read::get(key));
        if let Some(value) = self.recall(key).await? {
            return end(trouble, value);
        }
        let value = self.inner.get(key).await?;
        self.remember(key, value.as_ref());
        end(trouble, value)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.count(|counts| counts.gets += 1);
        self.count_trip(Read::get(key));
        let value = self.inner.get_snapshot(key).await?;
        self.remember(key, value.as_ref());
        end(trouble, value)
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.count_trip(as_fetched(Read::Range(read.clone())));
        let page = self.inner.range(read).await?;
        self.count(|counts| {
            counts.ranges += 1;
            counts.items += page.items.len() as u64;
        });
        end(trouble, page)
    }

    fn put(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        self.count(|counts| counts.writes += 1);
        self.written.push(Bytes::copy_from_slice(key));
        self.inner.put(key, value)
    }

    fn put_stamped(&mut self, prefix: &[u8], suffix: &[u8], value: impl Into<Bytes>) -> Result<(), EngineError> {
        self.count(|counts| counts.writes += 1);
        self.inner.put_stamped(prefix, suffix, value)
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<(), EngineError> {
        self.count(|counts| counts.writes += 1);
        self.added.push(Bytes::copy_from_slice(key));
        self.inner.add(key, delta)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.count(|counts| counts.writes += 1);
        self.written.push(Bytes::copy_from_slice(key));
        self.inner.delete(key)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<(), EngineError> {
        self.count(|counts| counts.writes += 1);
        self.inner.delete_range(start, end)
    }

    async fn commit(self) -> Result<Committed, CommitError> {
        others_first().await;
        let trouble = next(&self.state, true)?;
        self.count(|counts| counts.commits += 1);
        self.count_unread();
        match trouble {
            Some(Trouble::Conflict) => return Err(CommitError::Conflict),
            Some(Trouble::LoseCommit) => return Err(CommitError::Unknown(EngineError::Closed)),
            _ => {}
        }
        let Self { inner, state, added, written, cached, .. } = self;
        if matches!(cached, Some((_, false))) {
            return Err(CommitError::Conflict);
        }
        let committed = inner.commit().await?;
        if let (Some(cache), Some(stamp)) = (&mut state.lock().cache, committed.stamp()) {
            let version = stamp.as_bytes().first_chunk().map(|version| u64::from_be_bytes(*version));
            written.iter().for_each(|key| drop(cache.remove(key)));
            for key in added {
                cache.entry(key).and_modify(|(_, added_at)| *added_at = added_at.or(version));
            }
        }
        match trouble {
            Some(Trouble::DieAfter | Trouble::LoseAnswer) => Err(CommitError::Unknown(EngineError::Closed)),
            _ => Ok(committed),
        }
    }
}

/// Whether it depends on what it finds is all the same to who fetches it.
fn as_fetched(read: Read) -> Read {
    match read {
        Read::Range(range) => Read::Range(range.snapshot()),
        get @ Read::Get(_) => get,
    }
}

/// Lets every other task that waits run once, so that tasks interleave at every operation also on an engine
/// that never waits.
pub fn others_first() -> impl Future<Output = ()> + Send {
    struct Once(bool);
    impl Future for Once {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Once(false)
}
