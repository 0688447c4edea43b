//! An engine under a microscope: every operation is counted, can be made to fail, and lets others go first.
//!
//! A test runs a protocol once to count its operations, then once per operation and kind of fault.

use bytes::Bytes;
use futures_util::FutureExt;
use mundi_engine::{CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, Transaction};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// What happens at a chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The process dies before it.
    DieBefore,
    /// It takes effect, and the process dies before it hears of it.
    DieAfter,
    /// A commit is applied and its answer is lost; the process lives. Other operations are left alone.
    LoseAnswer,
    /// A commit is not applied, and nobody says so; the process lives. Other operations are left alone.
    LoseCommit,
    /// A commit is surely not applied; the process lives. Other operations are left alone.
    Conflict,
}

impl Trouble {
    pub const ALL: [Self; 5] = [Self::DieBefore, Self::DieAfter, Self::LoseAnswer, Self::LoseCommit, Self::Conflict];
}

/// What was asked of the engine.
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
    /// How often an engine at the other end of a line would have had to ask: a read takes along all that was announced.
    pub trips: u64,
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
    remembered: Option<BTreeMap<Bytes, Remembered>>,
}

/// What was seen of a key that someone peeked at, and the version of the first addition to it since.
type Remembered = (Option<Bytes>, Option<u64>);

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

    /// From now on it remembers what was peeked at, and hears of no addition to it before the next peek: as a process whose line is
    /// slow.
    pub fn remember(&self) {
        self.state.lock().remembered = Some(BTreeMap::new());
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Awaited operations since the probe was armed or revived.
    pub fn operations(&self) -> u64 {
        self.state.lock().operation
    }
}

/// What the next operation meets.
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
    announced: Vec<Read>,
    fetched: Vec<Read>,
    added: Vec<Bytes>,
}

impl<T> ProbeTransaction<T> {
    fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.state.lock().counts);
    }

    fn count_trip(&mut self, read: Read) {
        if !self.fetched.contains(&read) {
            self.fetched.append(&mut self.announced);
            self.fetched.push(read);
            self.count(|counts| counts.trips += 1);
        }
    }
}

impl<E: Engine> Engine for Probe<E> {
    type Transaction = ProbeTransaction<E::Transaction>;

    async fn begin(&self) -> Result<Self::Transaction, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.state.lock().counts.begins += 1;
        let inner = self.inner.begin().await?;
        let (announced, fetched, added) = (Vec::new(), Vec::new(), Vec::new());
        end(trouble, ProbeTransaction { inner, state: self.state.clone(), announced, fetched, added })
    }

    async fn peek(&self, key: &[u8]) -> Result<(Option<Bytes>, u64), EngineError> {
        let mut tx = self.begin().await?;
        let (value, version) = (tx.get_snapshot(key).await?, tx.version().await?);
        if let Some(remembered) = &mut self.state.lock().remembered {
            remembered.insert(Bytes::copy_from_slice(key), (value.clone(), None));
        }
        Ok((value, version))
    }

    fn recall(&self, key: &[u8]) -> Option<(Option<Bytes>, u64)> {
        let (value, added_at) = self.state.lock().remembered.as_ref()?.get(key)?.clone();
        let newest = || Some(self.inner.peek(key).now_or_never()?.ok()?.1);
        Some((value, added_at.map(|version| version - 1).or_else(newest)?))
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        self.inner.watch(key, seen)
    }
}

impl<T: Transaction> Transaction for ProbeTransaction<T> {
    async fn version(&mut self) -> Result<u64, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        end(trouble, self.inner.version().await?)
    }

    fn announce<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        let reads: Vec<Read> = reads().into_iter().collect();
        self.announced.extend(reads.iter().cloned().map(as_fetched));
        self.inner.announce(|| reads);
    }

    fn expect(&mut self, prefix: &[u8]) {
        self.inner.expect(prefix);
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.count(|counts| counts.gets += 1);
        self.count_trip(Read::get(key));
        end(trouble, self.inner.get(key).await?)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        others_first().await;
        let trouble = next(&self.state, false)?;
        self.count(|counts| counts.gets += 1);
        self.count_trip(Read::get(key));
        end(trouble, self.inner.get_snapshot(key).await?)
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
        match trouble {
            Some(Trouble::Conflict) => return Err(CommitError::Conflict),
            Some(Trouble::LoseCommit) => return Err(CommitError::Unknown(EngineError::Closed)),
            _ => {}
        }
        let Self { inner, state, added, .. } = self;
        let committed = inner.commit().await?;
        if let (Some(remembered), Some(stamp)) = (&mut state.lock().remembered, committed.stamp()) {
            let version = stamp.as_bytes().first_chunk().map(|version| u64::from_be_bytes(*version));
            for key in added {
                remembered.entry(key).and_modify(|(_, added_at)| *added_at = added_at.or(version));
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
