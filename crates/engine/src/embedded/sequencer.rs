//! The sequencer: one thread that decides the order of commits and makes them durable in groups.
//!
//! It takes all waiting commits, checks each against the writes since its snapshot, assigns its
//! stamp, and writes all of them with one synced frame. Meanwhile the next group gathers: groups grow
//! with the load, and a group waits for more commits only where `group_policy.rs` says so. A group on disk is published and
//! answered by the sequencer itself, or, where that takes long and the next group is ready, by the answerer while the
//! disk is busy; see `publish.rs`.

use super::{
    Shared,
    log::frame::{FrameBuilder, FramePlace},
    publish::{SyncedGroup, Work},
    queue::Proposal,
};
use crate::{
    CommitError, EngineError,
    group::{Answer, Found, Group, PER_WRITE_BYTES, refuse_all},
    overlay::{Write, added},
    recent::RecentWrites,
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::limits;
use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
};

pub(super) struct Sequencer {
    shared: Arc<Shared>,
    answerer: mpsc::SyncSender<Work>,
    recent: RecentWrites,
    /// The last group, if it is to be answered while the next one is synced. Only while there is a next one.
    unanswered: Option<SyncedGroup>,
}

impl Sequencer {
    pub(super) fn new(shared: Arc<Shared>, answerer: mpsc::SyncSender<Work>) -> Self {
        let recent = RecentWrites::new(shared.snapshots.newest().version);
        Self { shared, answerer, recent, unanswered: None }
    }

    /// Commits until the queue is closed.
    pub(super) fn run(mut self) {
        let mut waiting = Vec::new();
        while self.shared.queue.take(&mut waiting) {
            let refused = self.wait_for_room().err();
            let mut proposals = waiting.drain(..);
            while proposals.len() > 0 {
                match &refused {
                    Some(error) => proposals.by_ref().for_each(|proposal| refuse(proposal, error.clone().into())),
                    None => self.commit_group(&mut proposals),
                }
            }
        }
    }

    fn wait_for_room(&mut self) -> Result<(), EngineError> {
        if !self.shared.janitor.lags() {
            return Ok(());
        }
        self.answer_last(); // this may take long
        self.shared.janitor.wait_for_room(&self.shared.tree)
    }

    fn answer_last(&mut self) {
        match self.unanswered.take() {
            Some(durable) if self.all_shown(durable.version) => durable.settle(&self.shared),
            Some(durable) => self.hand_over(Work::Settle(durable)),
            None => {}
        }
    }

    fn hand_over(&self, work: Work) {
        if self.answerer.send(work).is_err() {
            self.shared.queue.abandon(); // the answerer has died: nothing will become visible any more
        }
    }

    /// Whether readers see everything before a version.
    fn all_shown(&self, version: u64) -> bool {
        self.shared.snapshots.newest().version + 1 == version
    }

    fn commit_group(&mut self, proposals: &mut impl Iterator<Item = Proposal>) {
        let applied = self.shared.snapshots.newest().version;
        self.recent.tidy(self.shared.oldest_snapshot().version, applied);
        let version = self.shared.log.next_version();
        let mut group = self.sequence(version, proposals);
        if group.callers.answers.is_empty() {
            self.answer_last();
            return self.refuse_in_order(version, group.callers.conflicts);
        }
        group.sort(); // runs are in order of keys
        let prepared = match self.shared.log.prepare(|place| encode(&group, place)) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.answer_last();
                return group.callers.fail(&error.into());
            }
        };
        if let Some(durable) = self.unanswered.take() {
            self.hand_over(Work::Settle(durable));
        }
        let frame = prepared.frame.clone();
        if let Err(error) = self.shared.log.append(prepared) {
            return group.callers.fail(&CommitError::Unknown(error));
        }
        self.recent.note(version, group.writes);
        let callers = group.callers;
        let later = self.shared.answer_cost.is_high(callers.len()) && self.shared.queue.has_next_group();
        self.unanswered = Some(SyncedGroup { version, frame, callers });
        if !later {
            self.answer_last();
        }
    }

    fn refuse_in_order(&self, version: u64, conflicts: Vec<oneshot::Sender<Answer>>) {
        if self.all_shown(version) {
            refuse_all(conflicts);
        } else {
            self.hand_over(Work::Refuse(conflicts));
        }
    }

    /// Puts commits in order until the group is full. Those that lost a race are answered here.
    fn sequence(&mut self, version: u64, proposals: &mut impl Iterator<Item = Proposal>) -> Group {
        let mut group = Group::default();
        while !group.is_full() {
            let Some(proposal) = proposals.next() else { break };
            let allowed = self.recent.allow(&proposal.overlay, proposal.version());
            if !allowed || !group.allows(&proposal.overlay) {
                group.callers.conflicts.push(proposal.answer);
                continue;
            }
            match self.look_up(&proposal, &mut group) {
                Ok(mut found) => {
                    let Proposal { overlay, cleared_keys, answer, .. } = proposal;
                    found.cleared.extend(cleared_keys);
                    group.add(group.stamp(version), overlay, found, answer);
                }
                Err(error) => refuse(proposal, error.into()),
            }
        }
        group
    }

    /// The part of a commit that only the sequencer knows. First of all, because it can fail.
    fn look_up(&self, proposal: &Proposal, group: &mut Group) -> Result<Found, EngineError> {
        let mut found = Found::default();
        let (mut bytes, snapshot) = (0, proposal.version());
        for (start, end) in &proposal.overlay.cleared {
            let since = self.recent.written_after(snapshot, start, end);
            let written: BTreeSet<&Bytes> = since.chain(group.written(start, end)).collect();
            for key in written {
                bytes += key.len() + PER_WRITE_BYTES;
                if bytes > limits::TRANSACTION_BYTES_MAX {
                    return Err(EngineError::TransactionTooLarge);
                }
                found.cleared.push(key.clone());
            }
        }
        for (key, write) in proposal.overlay.writes.iter() {
            if let Write::Add(delta) = write {
                let before = self.current(key, group)?;
                found.sums.push((key.clone(), added(before.as_ref(), *delta)));
            }
        }
        Ok(found)
    }

    /// The value of a key after all that has been sequenced.
    fn current(&self, key: &Bytes, group: &mut Group) -> Result<Option<Bytes>, EngineError> {
        if let Some(value) = group.value(key) {
            return Ok(value.clone());
        }
        let newest = self.shared.snapshots.open((self.shared.clock_ms)());
        match self.recent.value_after(newest.at().version, key) {
            Some(value) => Ok(value.clone()),
            None => self.shared.get(key, newest.at()),
        }
    }
}

/// However this thread ends, nobody is left waiting for it.
impl Drop for Sequencer {
    fn drop(&mut self) {
        self.shared.queue.abandon();
    }
}

fn encode(group: &Group, place: FramePlace) -> (Bytes, u64) {
    let mut frame = FrameBuilder::with_capacity(group.bytes);
    for (key, value) in &group.writes {
        frame.write(key, value.as_deref());
    }
    frame.finish(place)
}

fn refuse(proposal: Proposal, error: CommitError) {
    let _gone = proposal.answer.send(Err(error));
}
