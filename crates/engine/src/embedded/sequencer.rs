//! The sequencer: one thread that decides the order of commits and makes them durable in groups.
//!
//! It takes all commits that wait, checks each against what was written since its snapshot, gives it a
//! stamp, and writes all of them with one synced frame. Meanwhile the next ones gather: the group grows
//! with the load, and a lone commit never waits for company. While a frame is synced, the applier puts it
//! into the tree; see `passage.rs`.

use super::{
    Shared,
    conflicts::{RecentWrites, Writes},
    log::frame::{FrameBuilder, FramePlace},
    passage::{Callers, Passage, Work, refuse_all},
    queue::{Answer, Proposal},
};
use crate::{
    CommitError, EngineError,
    overlay::{Overlay, Write, added},
};
use bytes::Bytes;
use futures_channel::oneshot;
use mundi_model::{Stamp, limits};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, mpsc},
};

/// A group ends before this many bytes, so that a frame stays far below the limit of the log.
const GROUP_BYTES: usize = 8 << 20;
/// What a write takes in a frame besides key and value, with room to spare.
const PER_WRITE_BYTES: usize = 8;
/// The order within a group is the two-byte part of a stamp.
const GROUP_COMMITS_MAX: usize = Stamp::ORDER_DIRECT as usize;

/// A group with so few writes is put into the tree before the applier would have woken up.
const STAGED_HERE_MAX: usize = 8;

pub(super) struct Sequencer {
    shared: Arc<Shared>,
    applier: mpsc::SyncSender<Work>,
    recent: RecentWrites,
}

/// What the sequencer found out for one commit.
#[derive(Default)]
struct Found {
    /// What its counters become.
    sums: Vec<(Bytes, Bytes)>,
    /// The keys in its deleted ranges that were written after its snapshot.
    cleared_since: Vec<Bytes>,
}

/// A group in the making.
#[derive(Default)]
struct Group {
    writes: Writes,
    /// Where the last write to each key stands; made for the first commit that depends on what others wrote.
    places: Option<BTreeMap<Bytes, usize>>,
    bytes: usize,
    callers: Callers,
}

impl Sequencer {
    pub(super) fn new(shared: Arc<Shared>, applier: mpsc::SyncSender<Work>) -> Self {
        let recent = RecentWrites::new(shared.snapshots.newest().version);
        Self { shared, applier, recent }
    }

    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        let mut waiting = Vec::new();
        while self.shared.queue.take(&mut waiting) {
            let refused = self.shared.janitor.wait_for_room(&self.shared.tree).err();
            let mut proposals = waiting.drain(..);
            while proposals.len() > 0 {
                match &refused {
                    Some(error) => proposals.by_ref().for_each(|proposal| refuse(proposal, error.clone().into())),
                    None => self.commit_group(&mut proposals),
                }
            }
        }
    }

    fn commit_group(&mut self, proposals: &mut impl Iterator<Item = Proposal>) {
        let applied = self.shared.snapshots.newest().version;
        self.recent.tidy(self.shared.oldest_snapshot().version, applied);
        let version = self.shared.log.next_version();
        let mut group = self.sequence(version, proposals);
        if group.callers.answers.is_empty() {
            return self.refuse_in_order(applied + 1 == version, group.callers.conflicts);
        }
        // In order of keys the tree takes them faster. The sort is stable: the later of two writes stays later.
        group.writes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let prepared = match self.shared.log.prepare(|place| encode(&group, place)) {
            Ok(prepared) => prepared,
            Err(error) => return group.callers.fail(&error.into()),
        };
        let passage = Arc::new(Passage::new(version, prepared.frame.clone()));
        if group.writes.len() <= STAGED_HERE_MAX && applied + 1 == version {
            passage.stage(&self.shared);
        } else if self.applier.send(Work::Group(passage.clone())).is_err() {
            self.shared.queue.abandon(); // the applier has died: nothing will become visible any more
            return group.callers.fail(&EngineError::Closed.into());
        }
        match self.shared.log.append(prepared) {
            Ok(()) => {
                self.recent.note(version, group.writes);
                passage.settle(&self.shared, group.callers);
            }
            Err(error) => {
                if passage.take_back(&self.shared).is_err() {
                    self.shared.queue.abandon(); // neither the log nor the tree can be used
                }
                group.callers.fail(&CommitError::Unknown(error));
            }
        }
    }

    fn refuse_in_order(&self, all_shown: bool, conflicts: Vec<oneshot::Sender<Answer>>) {
        if all_shown {
            refuse_all(conflicts);
        } else if self.applier.send(Work::Refuse(conflicts)).is_err() {
            self.shared.queue.abandon();
        }
    }

    /// Puts commits in order until the group is full. Those that lost a race are answered here.
    fn sequence(&mut self, version: u64, proposals: &mut impl Iterator<Item = Proposal>) -> Group {
        let mut group = Group::default();
        while group.callers.answers.len() < GROUP_COMMITS_MAX && group.bytes < GROUP_BYTES {
            let Some(proposal) = proposals.next() else { break };
            let allowed = self.recent.allow(&proposal.overlay, proposal.snapshot.at().version);
            if !allowed || !group.allows(&proposal.overlay) {
                group.callers.conflicts.push(proposal.answer);
                continue;
            }
            // A group has fewer than 2^16 commits.
            let order = u16::try_from(group.callers.answers.len()).unwrap_or(u16::MAX);
            match self.look_up(&proposal, &mut group) {
                Ok(found) => group.add(Stamp::new(version, order), proposal, found),
                Err(error) => refuse(proposal, error.into()),
            }
        }
        group
    }

    /// What only the sequencer knows of a commit. First of all, because it can fail.
    fn look_up(&self, proposal: &Proposal, group: &mut Group) -> Result<Found, EngineError> {
        let mut found = Found::default();
        let (mut bytes, snapshot) = (0, proposal.snapshot.at().version);
        for (start, end) in &proposal.overlay.cleared {
            let in_group = group.places().range::<Bytes, _>(start..end.max(start)).map(|(key, _)| key);
            let written: BTreeSet<&Bytes> = self.recent.written_after(snapshot, start, end).chain(in_group).collect();
            for key in written {
                bytes += key.len() + PER_WRITE_BYTES;
                if bytes > limits::TRANSACTION_BYTES_MAX {
                    return Err(EngineError::TransactionTooLarge);
                }
                found.cleared_since.push(key.clone());
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
        if let Some(&place) = group.places().get(key) {
            return Ok(group.writes[place].1.clone());
        }
        let newest = self.shared.snapshots.newest();
        match self.recent.value_after(newest.version, key) {
            Some(value) => Ok(value.clone()),
            None => self.shared.tree.get(key, newest.seqno),
        }
    }
}

/// However this thread ends, nobody is left waiting for it.
impl Drop for Sequencer {
    fn drop(&mut self) {
        self.shared.queue.abandon();
    }
}

impl Group {
    /// Whether a commit depends on nothing that those before it in the group have written.
    fn allows(&mut self, overlay: &Overlay) -> bool {
        let reads = &overlay.reads;
        if reads.keys.is_empty() && reads.ranges.is_empty() {
            return true;
        }
        let places = self.places();
        !reads.keys.iter().any(|key| places.contains_key(key))
            && !reads.ranges.iter().any(|(start, end)| places.range::<Bytes, _>(start..end.max(start)).next().is_some())
    }

    fn places(&mut self) -> &mut BTreeMap<Bytes, usize> {
        let Self { places, writes, .. } = self;
        places.get_or_insert_with(|| writes.iter().zip(0..).map(|((key, _), place)| (key.clone(), place)).collect())
    }

    /// Adds the writes of one commit, with ranges, additions and stamps filled in.
    fn add(&mut self, stamp: Stamp, proposal: Proposal, found: Found) {
        let Proposal { overlay, cleared_keys, answer, .. } = proposal;
        for key in cleared_keys.into_iter().chain(found.cleared_since) {
            self.write(key, None);
        }
        for (key, write) in overlay.writes.into_writes() {
            match write {
                Write::Put(value) => self.write(key, Some(value)),
                Write::Delete => self.write(key, None),
                Write::Add(_) => {}
            }
        }
        for (key, sum) in found.sums {
            self.write(key, Some(sum));
        }
        for put in overlay.stamped {
            self.write(put.key(stamp), Some(put.value));
        }
        self.callers.answers.push((answer, stamp));
    }

    /// All writes of a group become visible at once: of several to one key, the last is enough.
    fn write(&mut self, key: Bytes, value: Option<Bytes>) {
        self.bytes += PER_WRITE_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len);
        if let Some(places) = &mut self.places {
            match places.entry(key.clone()) {
                Entry::Occupied(place) => return self.writes[*place.get()].1 = value,
                Entry::Vacant(place) => drop(place.insert(self.writes.len())),
            }
        }
        self.writes.push((key, value));
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
