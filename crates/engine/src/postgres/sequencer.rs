//! The sequencer: one task that puts the commits of this process in order and makes them durable in groups.
//!
//! While a group is under way the next one gathers, so it is as large as the load, and a lone commit waits for nobody of
//! its own process. Other processes' groups come in between, one at a time.

use super::{
    Shared,
    error::surely_not_applied,
    history::Open,
    writer::{Locked, Question, Writer},
};
use crate::{
    CommitError, EngineError,
    group::{Answer, Found, Group, refuse_all},
    overlay::{Overlay, Write, added},
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::limits;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// More waiting commits than any process has clients; beyond it, callers back off.
const PROPOSALS_MAX: usize = 65_536;
/// What they may hold together: some dozens of the largest transactions.
const BYTES_MAX: usize = 256 << 20;
/// What one group looks up before it is put in order.
const BATCH_BYTES: usize = 8 << 20;
/// Longer than the server waits for the lock: past this, it is the network that does not answer.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// A group is written and synced in milliseconds; past this, nobody knows what became of it.
const COMMIT_WAIT: Duration = Duration::from_secs(15);

/// A transaction that wants to commit.
pub(super) struct Proposal {
    pub(super) overlay: Overlay,
    /// What it has read is true as of this version; whatever it is, if it has read nothing.
    pub(super) version: u64,
    pub(super) begun_ms: u64,
    pub(super) answer: oneshot::Sender<Answer>,
    /// It is still to be checked against what was written since.
    pub(super) _open: [Option<Open>; 2],
}

/// Where transactions hand in their commits.
pub(super) struct Queue {
    proposals: mpsc::Sender<Proposal>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    pub(super) fn push(&self, proposal: Proposal) -> Result<(), EngineError> {
        let bytes = proposal.overlay.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pushed = if before > BYTES_MAX {
            Err(EngineError::Busy { what: "the queue of commits, in bytes,", max: BYTES_MAX })
        } else {
            self.proposals.try_send(proposal).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    EngineError::Busy { what: "the queue of commits", max: PROPOSALS_MAX }
                }
                mpsc::error::TrySendError::Closed(_) => EngineError::Closed,
            })
        };
        if pushed.is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        pushed
    }
}

pub(super) struct Sequencer {
    shared: Arc<Shared>,
    proposals: mpsc::Receiver<Proposal>,
    bytes: Arc<AtomicUsize>,
    writer: Option<Writer>,
}

impl Sequencer {
    pub(super) fn new(shared: Arc<Shared>) -> (Queue, Self) {
        let (sender, proposals) = mpsc::channel(PROPOSALS_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let queue = Queue { proposals: sender, bytes: bytes.clone() };
        (queue, Self { shared, proposals, bytes, writer: None })
    }

    /// Runs until the engine is dropped and everything is answered.
    pub(super) async fn run(mut self) {
        let mut waiting = VecDeque::new();
        while let Some(first) = self.proposals.recv().await {
            waiting.push_back(first);
            while let Ok(next) = self.proposals.try_recv() {
                waiting.push_back(next);
            }
            while !waiting.is_empty() {
                self.commit_group(&mut waiting).await;
                // What has come meanwhile joins: the group after this one is as large as it can be.
                while let Ok(next) = self.proposals.try_recv() {
                    waiting.push_back(next);
                }
            }
        }
    }

    async fn commit_group(&mut self, waiting: &mut VecDeque<Proposal>) {
        let writer = match self.writer().await {
            Ok(writer) => writer,
            Err(error) => return self.refuse_all(waiting, &error),
        };
        let mut batch = self.batch(waiting);
        let question = question(&batch, self.shared.history.version());
        let locked = match self.shared.connector.within(LOCK_WAIT, writer.lock(&question)).await {
            Some(Ok(locked)) => locked,
            Some(Err(error)) => {
                tracing::warn!(%error, "a commit group could not begin");
                return self.try_again(batch, waiting, &error);
            }
            // The connection is dropped, and the server lets go of the lock.
            None => return self.try_again(batch, waiting, &EngineError::TooOld),
        };
        let newest = locked.news.last().map_or(question.known, |(version, _)| *version);
        let mut looked_up = LookedUp::new(&question, locked, &self.shared);
        let version = newest + 1;
        let mut group = Group::default();
        while !group.is_full() {
            let Some(proposal) = batch.pop_front() else { break };
            looked_up.sequence(version, proposal, &mut group, &self.shared);
        }
        batch.into_iter().rev().for_each(|proposal| self.put_back(proposal, waiting));
        self.finish(writer, version, group).await;
    }

    /// Writes the group, or lets the head go if nothing is left of it.
    async fn finish(&mut self, writer: Writer, version: u64, mut group: Group) {
        if group.callers.answers.is_empty() {
            if writer.release().await.is_ok() {
                self.writer = Some(writer);
            }
            return refuse_all(group.callers.conflicts);
        }
        group.sort();
        let mut writes = group.writes;
        keep_last(&mut writes);
        match self.shared.connector.within(COMMIT_WAIT, writer.commit(version, &writes)).await {
            Some(Ok(())) => {
                self.writer = Some(writer);
                self.shared.history.advance_own(version, writes);
                group.callers.succeed();
            }
            Some(Err(error)) => {
                let is_known = surely_not_applied(&error);
                let error = super::error::refused("committing", error);
                tracing::warn!(%error, is_known, "a commit group failed");
                group.callers.fail(&if is_known { CommitError::Engine(error) } else { CommitError::Unknown(error) });
            }
            None => {
                let silent = std::io::Error::from(std::io::ErrorKind::TimedOut);
                group
                    .callers
                    .fail(&CommitError::Unknown(EngineError::failed("waiting for the answer to a commit", silent)));
            }
        }
    }

    /// The connection of the last group if it is good, else another.
    async fn writer(&mut self) -> Result<Writer, EngineError> {
        match self.writer.take().filter(|writer| !writer.is_closed()) {
            Some(writer) => Ok(writer),
            None => Writer::connect(&self.shared.connector).await,
        }
    }

    /// As many as one group can look up.
    fn batch(&self, waiting: &mut VecDeque<Proposal>) -> VecDeque<Proposal> {
        let (mut batch, mut bytes) = (VecDeque::new(), 0);
        while bytes < BATCH_BYTES {
            let Some(proposal) = waiting.pop_front() else { break };
            bytes += proposal.overlay.bytes();
            self.bytes.fetch_sub(proposal.overlay.bytes(), Ordering::Relaxed);
            batch.push_back(proposal);
        }
        batch
    }

    /// The group was not begun: those who are young enough stay, in their order.
    fn try_again(&self, batch: VecDeque<Proposal>, waiting: &mut VecDeque<Proposal>, error: &EngineError) {
        let now_ms = (self.shared.clock_ms)();
        let passes = matches!(error, EngineError::DatabaseUnavailable { .. } | EngineError::TooOld);
        for proposal in batch.into_iter().rev() {
            let is_old = now_ms.saturating_sub(proposal.begun_ms) > limits::TRANSACTION_AGE_MS_MAX;
            if !passes {
                let _gone = proposal.answer.send(Err(error.clone().into()));
            } else if is_old {
                let _gone = proposal.answer.send(Err(CommitError::Conflict));
            } else {
                self.put_back(proposal, waiting);
            }
        }
    }

    fn put_back(&self, proposal: Proposal, waiting: &mut VecDeque<Proposal>) {
        self.bytes.fetch_add(proposal.overlay.bytes(), Ordering::Relaxed);
        waiting.push_front(proposal);
    }

    fn refuse_all(&self, waiting: &mut VecDeque<Proposal>, error: &EngineError) {
        for proposal in waiting.drain(..) {
            self.bytes.fetch_sub(proposal.overlay.bytes(), Ordering::Relaxed);
            let _gone = proposal.answer.send(Err(error.clone().into()));
        }
    }
}

/// What the proposals of a group need to know.
fn question(batch: &VecDeque<Proposal>, known: u64) -> Question {
    let mut counters = BTreeSet::new();
    let mut ranges = Vec::new();
    for proposal in batch {
        let adds = proposal.overlay.writes.iter().filter(|(_, write)| matches!(write, Write::Add(_)));
        counters.extend(adds.map(|(key, _)| key.clone()));
        ranges.extend(proposal.overlay.cleared.iter().cloned());
    }
    Question { known, counters: counters.into_iter().collect(), ranges }
}

/// The state below a group.
struct LookedUp {
    locked: Locked,
    ranges: Vec<(Bytes, Bytes)>,
    next_range: usize,
}

impl LookedUp {
    fn new(question: &Question, mut locked: Locked, shared: &Shared) -> Self {
        shared.history.advance(std::mem::take(&mut locked.news));
        Self { locked, ranges: question.ranges.clone(), next_range: 0 }
    }

    /// Gives a commit its place, or refuses it.
    fn sequence(&mut self, version: u64, mut proposal: Proposal, group: &mut Group, shared: &Shared) {
        // The ranges stand in the order of the proposals.
        let first_range = self.next_range;
        self.next_range += proposal.overlay.cleared.len();
        if !shared.history.allows(&proposal.overlay, proposal.version) || !group.allows(&proposal.overlay) {
            return group.callers.conflicts.push(proposal.answer);
        }
        match self.find(first_range, &mut proposal.overlay, group) {
            Ok(found) => group.add(group.stamp(version), proposal.overlay, found, proposal.answer),
            Err(error) => drop(proposal.answer.send(Err(error.into()))),
        }
    }

    fn find(&self, first_range: usize, overlay: &mut Overlay, group: &mut Group) -> Result<Found, EngineError> {
        let mut found = Found::default();
        for place in first_range..first_range + overlay.cleared.len() {
            let (start, end) = &self.ranges[place];
            let stored = self.locked.ranges[place].iter();
            let keys: BTreeSet<&Bytes> = stored.chain(group.written(start, end)).collect();
            for key in keys {
                overlay.count_cleared(key.len())?;
                found.cleared.push(key.clone());
            }
        }
        for (key, write) in overlay.writes.iter() {
            if let Write::Add(delta) = write {
                let before = match group.value(key) {
                    Some(value) => value.as_ref(),
                    None => self.locked.counters.get(key),
                };
                found.sums.push((key.clone(), added(before, *delta)));
            }
        }
        Ok(found)
    }
}

/// Of several writes to a key, in order of keys, the last.
fn keep_last(writes: &mut crate::recent::Writes) {
    writes.reverse();
    writes.dedup_by(|(later, _), (kept, _)| later == kept);
    writes.reverse();
}
