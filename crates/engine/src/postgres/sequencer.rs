//! The sequencer: one task that puts the commits of this process in order and makes them durable in groups. `sequencer_thread.rs` says where
//! it runs.
//!
//! While a group is in progress the next one gathers, so its size follows the load, and a single commit never waits for others of
//! its own process. Groups of other processes come in between, one at a time; commits that arrive while a group waits for them join it, unless
//! they need a lookup that the group does not make.
//!
//! A process that found no other process' commit the last time skips the lookup: lock, writes and commit are one round trip, which the
//! database refuses if another process committed in between. Then the group is repeated in two round trips.

use super::{
    Shared,
    conflict_window::Open,
    error::surely_not_applied,
    writer::{Locked, Question, Writer},
};
use crate::{
    CommitError, EngineError,
    group::{Answer, Found, Group, refuse_all},
    overlay::{Overlay, Write, added},
    recent::Writes,
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::limits;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};

/// More waiting commits than any process has clients; beyond it, callers back off.
const PROPOSALS_MAX: usize = 65_536;
/// The bytes that they may hold together: some dozens of the largest transactions.
const BYTES_MAX: usize = 256 << 20;
/// The bytes that one group looks up before it is put in order.
const BATCH_BYTES: usize = 8 << 20;
/// Longer than the server waits for the lock: past this, it is the network that does not answer.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// A group is written and synced in milliseconds; past this, nobody knows what became of it.
const COMMIT_WAIT: Duration = Duration::from_secs(15);

/// A transaction that wants to commit.
pub(super) struct Proposal {
    pub(super) overlay: Overlay,
    /// The version of which its reads are true; any, if it has read nothing.
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
    pub(super) shared: Arc<Shared>,
    pub(super) proposals: mpsc::Receiver<Proposal>,
    bytes: Arc<AtomicUsize>,
    pub(super) writer: Option<Writer>,
    /// The version of its last commit.
    own: u64,
    /// The last group found nobody else's commit: then counters are what this process left, and the next one asks for nothing.
    is_alone: bool,
}

impl Sequencer {
    pub(super) fn new(shared: Arc<Shared>) -> (Queue, Self) {
        let (sender, proposals) = mpsc::channel(PROPOSALS_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let queue = Queue { proposals: sender, bytes: bytes.clone() };
        (queue, Self { shared, proposals, bytes, writer: None, own: 0, is_alone: false })
    }

    pub(super) async fn commit_group(&mut self, waiting: &mut VecDeque<Proposal>) {
        let writer = match self.writer().await {
            Ok(writer) => writer,
            Err(error) => return self.refuse_all(waiting, &error),
        };
        let mut batch = self.batch(waiting);
        let question = self.question(&batch);
        if self.is_alone && question.known == self.own && question.is_empty() {
            return self.commit_at_once(writer, question.known, batch, waiting).await;
        }
        let locked = match within(LOCK_WAIT, writer.lock(&question)).await {
            Some(Ok(locked)) => locked,
            Some(Err(error)) => {
                tracing::warn!(%error, "a commit group could not begin");
                return self.try_again(batch, waiting, &error);
            }
            // The connection is dropped, and the server lets go of the lock.
            None => return self.try_again(batch, waiting, &EngineError::TooOld),
        };
        let newest = locked.news.last().map_or(question.known, |(version, _)| *version);
        self.is_alone = newest == self.own;
        let mut looked_up = LookedUp::new(&question, locked, &self.shared);
        self.join(&mut batch, waiting);
        let version = newest + 1;
        let (mut group, mut unknown) = (Group::default(), Vec::new());
        while !group.is_full() {
            let Some(proposal) = batch.pop_front() else { break };
            if looked_up.knows(&proposal.overlay, &self.shared) {
                let Proposal { overlay, version: read_at, answer, .. } = proposal;
                looked_up.sequence(version, read_at, overlay, answer, &mut group, &self.shared);
            } else {
                unknown.push(proposal); // the next group asks
            }
        }
        batch.extend(unknown);
        batch.into_iter().rev().for_each(|proposal| self.put_back(proposal, waiting));
        self.finish(writer, version, group).await;
    }

    /// Commits, in one round trip, the proposals that need no lookup.
    async fn commit_at_once(
        &mut self,
        writer: Writer,
        known: u64,
        batch: VecDeque<Proposal>,
        waiting: &mut VecDeque<Proposal>,
    ) {
        let (mut attempt, mut looked_up, mut rest) = (Attempt::new(known + 1), LookedUp::default(), VecDeque::new());
        for proposal in batch {
            if !attempt.group.is_full() && looked_up.knows(&proposal.overlay, &self.shared) {
                attempt.add(proposal, &mut looked_up, &self.shared);
            } else {
                rest.push_back(proposal);
            }
        }
        rest.into_iter().rev().for_each(|proposal| self.put_back(proposal, waiting));
        if attempt.kept.is_empty() {
            self.writer = Some(writer);
            return refuse_all(attempt.group.callers.conflicts);
        }
        let writes = attempt.sorted();
        let commit = writer.commit_at_once(attempt.version, &writes, &attempt.new);
        match within(COMMIT_WAIT, commit).await {
            Some(Ok(())) => {
                (self.writer, self.own) = (Some(writer), attempt.version);
                self.shared.conflict_window.advance_own(attempt.version, writes, &attempt.group.rereads);
                attempt.group.callers.succeed();
            }
            Some(Err(error)) if surely_not_applied(&error) => {
                self.writer = Some(writer);
                self.begin_again(attempt, waiting);
            }
            Some(Err(_)) | None => {
                drop(writer);
                if self.is_undone(attempt.version, &writes).await {
                    self.begin_again(attempt, waiting);
                } else {
                    let silent = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    let error = EngineError::failed("waiting for the answer to a commit", silent);
                    attempt.group.callers.fail(&CommitError::Unknown(error));
                }
            }
        }
    }

    /// Nothing of it was written: the next group asks first.
    fn begin_again(&mut self, attempt: Attempt, waiting: &mut VecDeque<Proposal>) {
        self.is_alone = false;
        let Attempt { group, kept, .. } = attempt;
        refuse_all(group.callers.conflicts);
        let answers = group.callers.answers.into_iter().map(|(answer, _)| answer);
        for ((overlay, version, begun_ms, _open), answer) in kept.into_iter().zip(answers).rev() {
            self.put_back(Proposal { overlay, version, begun_ms, answer, _open }, waiting);
        }
    }

    /// Whether a group whose line broke was not applied, and never will be: it can only be applied as this version, so that is
    /// looked for on another line, and taken if it is free.
    async fn is_undone(&mut self, version: u64, writes: &Writes) -> bool {
        let Ok(writer) = Writer::connect(&self.shared.connector).await else { return false };
        let question = Question { known: version - 1, ..Question::default() };
        let locked = within(LOCK_WAIT, writer.lock(&question)).await;
        let Some(Ok(Locked { news, .. })) = locked else { return false };
        let is_undone = match news.first() {
            None => matches!(within(COMMIT_WAIT, writer.commit(version, &Writes::new())).await, Some(Ok(()))),
            // Who wrote the very same keys may be this process.
            Some((first, others)) => {
                let differ = !others.iter().map(|(key, _)| key).eq(writes.iter().map(|(key, _)| key));
                let released = writer.release().await.is_ok();
                released && *first == version && differ
            }
        };
        if is_undone {
            self.writer = Some(writer);
        }
        is_undone
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
        match within(COMMIT_WAIT, writer.commit(version, &writes)).await {
            Some(Ok(())) => {
                (self.writer, self.own) = (Some(writer), version);
                self.shared.conflict_window.advance_own(version, writes, &group.rereads);
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

    /// The lookups that the proposals of a group need.
    fn question(&self, batch: &VecDeque<Proposal>) -> Question {
        let history = &self.shared.conflict_window;
        let mut counters = BTreeSet::new();
        let mut ranges = Vec::new();
        for proposal in batch {
            let adds = proposal.overlay.writes.iter().filter(|(_, write)| matches!(write, Write::Add(_)));
            counters.extend(adds.map(|(key, _)| key.clone()));
            ranges.extend(proposal.overlay.cleared.iter().cloned());
        }
        if self.is_alone {
            counters.retain(|key| history.recall(key).is_none());
        }
        Question { known: history.version(), counters: counters.into_iter().collect(), ranges }
    }

    /// Those who came while the group waited for its turn, behind those who were first.
    fn join(&mut self, batch: &mut VecDeque<Proposal>, waiting: &mut VecDeque<Proposal>) {
        while let Ok(next) = self.proposals.try_recv() {
            waiting.push_back(next);
        }
        let (mut bytes, mut rest) =
            (batch.iter().map(|proposal| proposal.overlay.bytes()).sum::<usize>(), VecDeque::new());
        for proposal in waiting.drain(..) {
            if bytes < BATCH_BYTES {
                bytes += proposal.overlay.bytes();
                self.bytes.fetch_sub(proposal.overlay.bytes(), Ordering::Relaxed);
                batch.push_back(proposal);
            } else {
                rest.push_back(proposal);
            }
        }
        *waiting = rest;
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

/// `None` if it takes longer.
pub(super) async fn within<O>(limit: Duration, future: impl Future<Output = O>) -> Option<O> {
    timeout(limit, future).await.ok()
}

/// A group that is tried in one trip, with what it takes to begin it again.
struct Attempt {
    version: u64,
    group: Group,
    /// Of each that has a place in the group: what it wants, and as of when.
    kept: Vec<(Overlay, u64, u64, [Option<Open>; 2])>,
    /// Keys that hold nothing before it, as far as its commits know. If one does, the database refuses the group.
    new: Vec<Bytes>,
}

impl Attempt {
    fn new(version: u64) -> Self {
        Self { version, group: Group::default(), kept: Vec::new(), new: Vec::new() }
    }

    fn add(&mut self, proposal: Proposal, looked_up: &mut LookedUp, shared: &Shared) {
        let Proposal { overlay, version, begun_ms, answer, _open } = proposal;
        let (again, before) = (overlay.clone(), self.group.callers.answers.len());
        let stamp = self.group.stamp(self.version);
        looked_up.sequence(self.version, version, overlay, answer, &mut self.group, shared);
        if self.group.callers.answers.len() > before {
            self.new.extend(again.puts_of_new_keys().cloned().chain(again.stamped.iter().map(|put| put.key(stamp))));
            self.kept.push((again, version, begun_ms, _open));
        }
    }

    /// Its writes, in order of keys.
    fn sorted(&mut self) -> Writes {
        self.group.sort();
        self.new.sort();
        let mut writes = std::mem::take(&mut self.group.writes);
        keep_last(&mut writes);
        writes
    }
}

/// The state below a group.
#[derive(Default)]
struct LookedUp {
    counters: BTreeMap<Bytes, Option<Bytes>>,
    /// The keys in each range.
    ranges: BTreeMap<(Bytes, Bytes), Vec<Bytes>>,
}

impl LookedUp {
    fn new(question: &Question, locked: Locked, shared: &Shared) -> Self {
        let Locked { news, mut counters, ranges } = locked;
        shared.conflict_window.advance(news);
        let counters = question.counters.iter().map(|key| (key.clone(), counters.remove(key))).collect();
        shared.conflict_window.remember_newest(&counters);
        Self { counters, ranges: question.ranges.iter().cloned().zip(ranges).collect() }
    }

    /// Whether all is known that a commit needs: it was asked for, or, of counters, nobody has touched them since they were seen.
    fn knows(&mut self, overlay: &Overlay, shared: &Shared) -> bool {
        let adds = overlay.writes.iter().filter(|(_, write)| matches!(write, Write::Add(_)));
        for (key, _) in adds {
            if !self.counters.contains_key(key) {
                // All commits up to the newest one have been taken in: what is remembered is the newest.
                let Some((value, _)) = shared.conflict_window.recall(key) else { return false };
                self.counters.insert(key.clone(), value);
            }
        }
        overlay.cleared.iter().all(|range| self.ranges.contains_key(range))
    }

    /// Gives a commit its place, or refuses it.
    fn sequence(
        &mut self,
        version: u64,
        read_at: u64,
        mut overlay: Overlay,
        answer: oneshot::Sender<Answer>,
        group: &mut Group,
        shared: &Shared,
    ) {
        if !shared.conflict_window.allows(&overlay, read_at) || !group.allows(&overlay) {
            return group.callers.conflicts.push(answer);
        }
        match self.find(&mut overlay, group) {
            Ok(found) => group.add(group.stamp(version), overlay, found, answer),
            Err(error) => drop(answer.send(Err(error.into()))),
        }
    }

    fn find(&self, overlay: &mut Overlay, group: &mut Group) -> Result<Found, EngineError> {
        let mut found = Found::default();
        for (start, end) in overlay.cleared.clone() {
            let stored = self.ranges.get(&(start.clone(), end.clone())).into_iter().flatten();
            let (start, end) = (&start, &end);
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
                    None => self.counters.get(key).and_then(Option::as_ref),
                };
                found.sums.push((key.clone(), added(before, *delta)));
            }
        }
        Ok(found)
    }
}

/// Of several writes to a key, in order of keys, the last.
fn keep_last(writes: &mut Writes) {
    writes.reverse();
    writes.dedup_by(|(later, _), (kept, _)| later == kept);
    writes.reverse();
}
