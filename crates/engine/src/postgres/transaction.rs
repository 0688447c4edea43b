//! A transaction on PostgreSQL. Its snapshot is taken by its first read; its writes are sent at commit.

use super::{
    Postgres, Shared,
    conflict_window::Open,
    error::{passes, refused},
    pool::Lease,
    sequencer::Proposal,
};
use crate::{
    CommitError, Committed, EngineError, Page, RangeRead, Read, ReadPlan, Source, Transaction,
    overlay::Overlay,
    planned_reads::{Found, Items, PlannedReads, after},
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::limits;
use std::time::Duration;

/// A read that takes longer could not be used any more.
const READ_WAIT: Duration = Duration::from_millis(limits::TRANSACTION_AGE_MS_MAX);

/// More connections than are likely to lie idle and broken after a restart of the server.
const FIRST_ATTEMPTS_MAX: u32 = 32;

pub struct PostgresTransaction {
    engine: Postgres,
    begun_ms: u64,
    overlay: Overlay,
    snapshot: Snapshot,
    reads: Reads,
    planned: PlannedReads,
}

/// The source of answers for the reads: the [`Source`] of the plan, and its result.
enum Reads {
    /// The transaction's own snapshot.
    Own,
    /// Nothing was read yet.
    Cache,
    /// Some came from the cache, or were read together with those of other transactions. All were true at this version, or at a later one.
    Cached { version: u64, _open: Open },
    /// Nothing was read yet.
    Shared,
    /// All that is planned was fetched at once, from a snapshot that others share.
    Fetched { version: u64, _open: Open },
}

enum Snapshot {
    /// Nothing was read.
    None,
    Taken {
        version: u64,
        lease: Lease,
        open: Open,
    },
    /// Its connection broke: what was read cannot be relied on, and no more can be.
    Lost,
}

impl PostgresTransaction {
    pub(super) fn new(engine: Postgres) -> Self {
        Self::planned(engine, Source::OwnSnapshot, ReadPlan::default())
    }

    pub(super) fn planned(engine: Postgres, source: Source, plan: ReadPlan) -> Self {
        let begun_ms = (engine.0.shared.clock_ms)();
        let ReadPlan { reads, rereads, new_keys } = plan;
        let mut overlay = Overlay::default();
        (overlay.rereads, overlay.new_keys) = (rereads, new_keys);
        let mut planned = PlannedReads::default();
        planned.add(reads);
        let reads = match source {
            Source::OwnSnapshot => Reads::Own,
            Source::SharedSnapshot => Reads::Shared,
            Source::Cache => Reads::Cache,
        };
        Self { engine, begun_ms, overlay, snapshot: Snapshot::None, reads, planned }
    }

    fn shared(&self) -> &Shared {
        &self.engine.0.shared
    }

    fn check_age(&self) -> Result<(), EngineError> {
        let age_ms = (self.shared().clock_ms)().saturating_sub(self.begun_ms);
        if age_ms > limits::TRANSACTION_AGE_MS_MAX { Err(EngineError::TooOld) } else { Ok(()) }
    }

    /// Reads the snapshot; all that was planned is fetched with it.
    async fn fetch(&mut self, read: Read) -> Result<Found, EngineError> {
        self.pass_over_remembered();
        let reads = self.planned.with(read);
        let found = match (&self.reads, &self.snapshot) {
            (Reads::Fetched { .. }, _) => return Err(EngineError::TooOld),
            (Reads::Cache | Reads::Cached { .. } | Reads::Shared, Snapshot::None) => self.gather(&reads).await?,
            _ => self.ask(&reads).await?,
        };
        let mut found = found.into_iter();
        let first = found.next().unwrap_or(Found::Value(None)); // as many answers as questions
        self.planned.keep(reads.into_iter().skip(1).zip(found));
        Ok(first)
    }

    /// Reads together with all other transactions of this process that need no snapshot of their own.
    async fn gather(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        let shared = self.engine.0.shared.clone();
        let open = shared.conflict_window.open(); // first: from now on nothing is forgotten that it may conflict with
        let asking = shared.batched_reads.ask(reads.to_vec());
        let (found, version) = shared.connector.within(READ_WAIT, asking).await.unwrap_or(Err(EngineError::TooOld))?;
        self.reads = match std::mem::replace(&mut self.reads, Reads::Own) {
            Reads::Cached { version: before, _open } => Reads::Cached { version: before.min(version), _open },
            Reads::Shared | Reads::Fetched { .. } => Reads::Fetched { version, _open: open },
            Reads::Own | Reads::Cache => Reads::Cached { version, _open: open },
        };
        Ok(found)
    }

    /// Drops planned reads that this process answers from memory.
    fn pass_over_remembered(&mut self) {
        if matches!(self.reads, Reads::Cache | Reads::Cached { .. }) {
            let history = &self.engine.0.shared.conflict_window;
            self.planned.retain(|read| !matches!(read, Read::Get(key) if history.recall(key).is_some()));
        }
    }

    /// Reads of the snapshot. As long as nothing was read, a connection that breaks is replaced.
    async fn ask(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        let mut attempts = 1;
        loop {
            let is_first = matches!(self.snapshot, Snapshot::None);
            match self.ask_once(reads).await {
                Err(EngineError::TooOld) if is_first && attempts < FIRST_ATTEMPTS_MAX && self.check_age().is_ok() => {
                    self.snapshot = Snapshot::None;
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Reads of the snapshot, which the first one takes. A connection that breaks takes it away: run it again.
    async fn ask_once(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        self.check_age()?;
        let shared = self.engine.0.shared.clone();
        // Lost until it has gone well: a read that is dropped halfway leaves no snapshot behind.
        let (version, mut lease, open) = match std::mem::replace(&mut self.snapshot, Snapshot::Lost) {
            Snapshot::Lost => return Err(EngineError::TooOld),
            Snapshot::Taken { version, lease, open } => (Some(version), lease, open),
            Snapshot::None => {
                let open = shared.conflict_window.open();
                let lease = shared.pool.lease().await.inspect_err(|_| self.snapshot = Snapshot::None)?;
                (None, lease, open)
            }
        };
        let reading = lease.read(version, reads);
        match shared.connector.within(READ_WAIT, reading).await {
            Some(Some(Ok((version, found)))) => {
                self.snapshot = Snapshot::Taken { version, lease, open };
                return Ok(found);
            }
            Some(Some(Err(error))) if !passes(&error) => Err(refused("reading", error)),
            Some(Some(Err(error))) => {
                tracing::debug!(%error, "the connection of a snapshot was lost");
                Err(EngineError::TooOld)
            }
            // Taken back, or silent for too long.
            Some(None) | None => Err(EngineError::TooOld),
        }
        .inspect_err(|_| lease.discard())
    }

    async fn read(&mut self, key: &[u8], depends: bool) -> Result<Option<Bytes>, EngineError> {
        self.check_age()?;
        if self.overlay.decides(key)? {
            return self.overlay.get(key, depends, |_| Ok(None));
        }
        let key = Bytes::copy_from_slice(key);
        let remembered = if depends { self.recall(&key) } else { None };
        let stored = match remembered {
            Some(value) => value,
            None => {
                let stored = match self.planned.value(&key) {
                    Some(value) => value,
                    None => self.fetch(Read::Get(key.clone())).await?.value(),
                };
                self.remember(&key, stored.as_ref());
                stored
            }
        };
        self.overlay.get(&key, depends, |_| Ok(stored))
    }

    /// The value of a key in this process's memory, if that is allowed. The first answer sets the version that the commit is checked from.
    fn recall(&mut self, key: &Bytes) -> Option<Option<Bytes>> {
        let history = &self.engine.0.shared.conflict_window;
        match &self.reads {
            Reads::Own | Reads::Shared | Reads::Fetched { .. } => None,
            Reads::Cached { .. } => history.recall(key).map(|(value, _)| value),
            Reads::Cache => {
                let open = history.open(); // first: from now on nothing is forgotten that it may conflict with
                let (value, version) = history.recall(key)?;
                self.reads = Reads::Cached { version, _open: open };
                Some(value)
            }
        }
    }

    fn remember(&self, key: &Bytes, value: Option<&Bytes>) {
        let version = match (&self.reads, &self.snapshot) {
            (Reads::Own, _) => return,
            (_, Snapshot::Taken { version, .. })
            | (Reads::Cached { version, .. } | Reads::Fetched { version, .. }, _) => *version,
            (Reads::Cache | Reads::Shared, _) => return,
        };
        self.shared().conflict_window.remember(key, value.cloned(), version);
    }

    /// The stored items of a range, until they make up a page together with what the transaction has written.
    async fn stored(&mut self, read: &RangeRead) -> Result<Items, EngineError> {
        let (mut rest, mut items) = (read.clone(), Vec::new());
        loop {
            let page = match self.planned.page(&rest) {
                Some(page) => page,
                None => self.fetch(Read::Range(rest.clone())).await?.items(),
            };
            let bytes: usize = page.iter().map(|(key, value)| key.len() + value.len()).sum();
            let is_cut = page.len() >= rest.limit || bytes >= limits::RANGE_BYTES_MAX;
            let last = page.last().map(|(key, _)| key.clone());
            items.extend(page);
            let Some(last) = last.filter(|_| is_cut && !self.overlay.fills_page(read, &items)) else {
                return Ok(items);
            };
            rest = after(rest, last);
        }
    }
}

impl Transaction for PostgresTransaction {
    async fn version(&mut self) -> Result<u64, EngineError> {
        if matches!(self.reads, Reads::Shared) {
            self.fetch(Read::get(&[0])).await?; // any key: a read takes all along
        }
        if let Reads::Cached { version, .. } | Reads::Fetched { version, .. } = self.reads {
            return Ok(version);
        }
        if matches!(self.snapshot, Snapshot::None) {
            self.ask(&[Read::get(&[0])]).await?; // any key: a read takes the snapshot
        }
        match self.snapshot {
            Snapshot::Taken { version, .. } => Ok(version),
            Snapshot::None | Snapshot::Lost => Err(EngineError::TooOld),
        }
    }

    fn prefetch<R: IntoIterator<Item = Read>>(&mut self, reads: impl FnOnce() -> R) {
        self.planned.add(reads());
    }

    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, true).await
    }

    async fn get_snapshot(&mut self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.read(key, false).await
    }

    async fn range(&mut self, read: RangeRead) -> Result<Page, EngineError> {
        self.check_age()?;
        let stored = if Overlay::is_empty_range(&read)? { Vec::new() } else { self.stored(&read).await? };
        self.overlay.range(&read, stored.into_iter().map(Ok))
    }

    crate::forward_writes!(overlay);

    async fn commit(self) -> Result<Committed, CommitError> {
        if self.overlay.is_read_only() {
            return Ok(Committed::ReadOnly);
        }
        if self.check_age().is_err() {
            return Err(CommitError::Conflict);
        }
        let Self { engine, begun_ms, overlay, snapshot, reads, planned: _ } = self;
        // Its connection goes back before it queues: a commit needs none of the pool.
        let (version, open) = match snapshot {
            Snapshot::None => (u64::MAX, None),
            Snapshot::Taken { version, open, lease } => {
                drop(lease);
                (version, Some(open))
            }
            Snapshot::Lost => return Err(CommitError::Conflict),
        };
        let (version, remembered) = match reads {
            Reads::Cached { version: other, _open: open } | Reads::Fetched { version: other, _open: open } => {
                (version.min(other), Some(open))
            }
            Reads::Own | Reads::Cache | Reads::Shared => (version, None),
        };
        let open = [open, remembered];
        let (answer, answered) = oneshot::channel();
        engine.0.queue.push(Proposal { overlay, version, begun_ms, answer, _open: open })?;
        // The sequencer always answers; it only goes without when its runtime is gone.
        answered.await.unwrap_or(Err(CommitError::Unknown(EngineError::Closed)))
    }
}
