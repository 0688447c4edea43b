//! A process that crashes at a chosen step, over any engine and object store.
//!
//! Every commit that writes and every write to the object store is a step. The switch is armed with the number of one:
//! the process crashes before it (which is also: between it and the step before), or after it, so that the effect is there
//! and nobody heard of it. From then on everything fails, until the process is revived. A test runs a protocol once to
//! count the steps, then once per step and side.

use bytes::Bytes;
use mundi_engine::{CommitError, Committed, Engine, EngineError, Page, RangeRead, Read, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;

/// On which side of a step the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

/// Decides when the process crashes; shared by all wrappers of one process.
#[derive(Debug, Clone, Default)]
pub struct CrashSwitch(Arc<Mutex<Switch>>);

#[derive(Debug, Default)]
struct Switch {
    armed: Option<(u64, Side)>,
    steps: u64,
    dead: bool,
}

impl CrashSwitch {
    /// The process will die at this step, counted from 0 at the last [`Self::revive`].
    pub fn arm(&self, step: u64, side: Side) {
        self.0.lock().armed = Some((step, side));
    }

    /// A new process: nothing is armed, and steps count from 0.
    pub fn revive(&self) {
        *self.0.lock() = Switch::default();
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Whether the process crashes here, and on which side.
    pub(super) fn step(&self) -> Option<Side> {
        let mut switch = self.0.lock();
        if switch.dead {
            return Some(Side::Before);
        }
        let step = switch.steps;
        switch.steps += 1;
        let (_, side) = switch.armed.filter(|(armed, _)| *armed == step)?;
        switch.dead = true;
        Some(side)
    }
}

/// An engine in a process that may die.
#[derive(Debug, Clone)]
pub struct CrashingEngine<E> {
    inner: E,
    switch: CrashSwitch,
}

impl<E> CrashingEngine<E> {
    pub fn new(inner: E, switch: CrashSwitch) -> Self {
        Self { inner, switch }
    }
}

pub struct CrashingTransaction<T> {
    inner: T,
    switch: CrashSwitch,
    writes: bool,
}

impl<E: Engine> Engine for CrashingEngine<E> {
    type Transaction = CrashingTransaction<E::Transaction>;

    async fn begin(&self) -> Result<Self::Transaction, EngineError> {
        if self.switch.is_dead() {
            return Err(EngineError::Closed);
        }
        Ok(CrashingTransaction { inner: self.inner.begin().await?, switch: self.switch.clone(), writes: false })
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        self.inner.watch(key, seen)
    }
}

impl<T> CrashingTransaction<T> {
    fn note_write(&mut self) {
        self.writes = true;
    }
}

impl<T: Transaction> Transaction for CrashingTransaction<T> {
    async fn version(&mut self) -> Result<u64, EngineError> {
        self.inner.version().await
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        self.inner.prefetch(reads);
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.inner.get(key).await
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.inner.get_snapshot(key).await
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.inner.range(read).await
    }

    mundi_engine::forward_writes!(inner, note_write);

    async fn commit(self) -> Result<Committed, CommitError> {
        if !self.writes {
            return self.inner.commit().await;
        }
        match self.switch.step() {
            None => self.inner.commit().await,
            Some(Side::Before) => Err(EngineError::Closed.into()),
            Some(Side::After) => {
                self.inner.commit().await?;
                Err(CommitError::Unknown(EngineError::Closed))
            }
        }
    }
}
