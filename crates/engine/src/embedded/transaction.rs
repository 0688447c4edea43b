//! A transaction on the embedded engine.
//!
//! Reads are answered on the caller's thread, from memory or from a block of a file. The locks that they
//! take are held for moments, never across a read of a file.

use super::{
    Embedded, Shared,
    queue::Proposal,
    range_cache,
    snapshots::{OpenSnapshot, Snapshot},
};
use crate::{CommitError, Committed, EngineError, Page, RangeRead, Transaction, overlay::Overlay};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::limits;

pub struct EmbeddedTransaction {
    engine: Embedded,
    begun_ms: u64,
    /// Opened by the first read: a transaction that only writes needs none, and takes no lock for it.
    snapshot: Option<OpenSnapshot>,
    overlay: Overlay,
}

impl EmbeddedTransaction {
    pub(super) fn new(engine: Embedded) -> Self {
        let begun_ms = (engine.0.shared.clock_ms)();
        Self { engine, begun_ms, snapshot: None, overlay: Overlay::default() }
    }

    fn shared(&self) -> &Shared {
        &self.engine.0.shared
    }

    fn check_age(&self) -> Result<(), EngineError> {
        let age_ms = (self.shared().clock_ms)().saturating_sub(self.begun_ms);
        if age_ms > limits::TRANSACTION_AGE_MS_MAX { Err(EngineError::TooOld) } else { Ok(()) }
    }

    /// The state that it reads.
    fn at(&mut self) -> Snapshot {
        let (snapshots, begun_ms) = (&self.engine.0.shared.snapshots, self.begun_ms);
        self.snapshot.get_or_insert_with(|| snapshots.open(begun_ms)).at()
    }

    fn read(&mut self, key: &[u8], depends: bool) -> Result<Option<Bytes>, EngineError> {
        self.check_age()?;
        let at = self.at();
        let shared = &self.engine.0.shared;
        self.overlay.get(key, depends, |key| shared.get(key, at))
    }

    /// The keys that the deleted ranges hold in the snapshot. What was added since, the sequencer knows.
    fn cleared_keys(&mut self) -> Result<Vec<Bytes>, EngineError> {
        if self.overlay.cleared.is_empty() {
            return Ok(Vec::new());
        }
        let seqno = self.at().seqno;
        let mut keys = Vec::new();
        for (start, end) in &self.overlay.cleared.clone() {
            for item in self.engine.0.shared.tree.range(start, end, false, seqno) {
                let (key, _) = item?;
                self.overlay.count_cleared(key.len())?;
                keys.push(key);
            }
        }
        Ok(keys)
    }
}

impl Transaction for EmbeddedTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        Ok(self.at().version)
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, true)
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, false)
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.check_age()?;
        let at = self.at();
        let shared = &self.engine.0.shared;
        let short = !Overlay::is_empty_range(&read)? && !read.reverse && read.limit <= range_cache::LIMIT_MAX;
        if short && !self.overlay.touches(&read) {
            let items = shared.range(&read, at)?;
            return self.overlay.range(&read, items.into_iter().map(Ok));
        }
        self.overlay.range(&read, shared.tree.range(&read.start, &read.end, read.reverse, at.seqno))
    }

    crate::forward_writes!(overlay);

    async fn commit(mut self) -> Result<Committed, CommitError> {
        if self.overlay.is_read_only() {
            return Ok(Committed::ReadOnly);
        }
        if self.check_age().is_err() {
            return Err(CommitError::Conflict);
        }
        let cleared_keys = self.cleared_keys()?;
        let (answer, answered) = oneshot::channel();
        let Self { engine, snapshot, overlay, .. } = self;
        let _committing = engine.0.shared.queue.enter();
        engine.0.shared.queue.push(Proposal { snapshot, overlay, cleared_keys, answer })?;
        // The sequencer always answers; it only goes without when its thread has crashed.
        answered.await.unwrap_or(Err(CommitError::Unknown(EngineError::Closed)))
    }
}
