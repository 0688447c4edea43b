//! Commits on their way to the sequencer.

use super::{load::Load, snapshots::OpenSnapshot};
use crate::{EngineError, group::Answer, overlay::Overlay};
use bytes::Bytes;
use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    thread,
    time::{Duration, Instant},
};

/// More waiting commits than any machine has clients; beyond it, callers back off.
const PROPOSALS_MAX: usize = 65_536;
/// What they may hold together: some dozens of the largest transactions.
const BYTES_MAX: usize = 256 << 20;

/// How often the sequencer lets others go first, as long as that brings more commits.
const GATHERED_MAX: usize = 16;
/// How long the others may take, and how much longer for each commit that they bring: several times what they need. A
/// scheduler may take a whole time slice from who goes last, and give it to strangers.
const TURN_MAX: Duration = Duration::from_micros(100);
const TURN_PER_COMMIT: Duration = Duration::from_micros(20);
/// Groups that are then taken as they are. A slice is a few milliseconds: one in so many groups is little.
const HURRIED_GROUPS: u32 = 1_024;

/// While the processors are busy, a group may wait for so many commits ...
const WANTED: usize = 16;
/// ... as long as others come within so long ...
const PAUSE: Duration = Duration::from_micros(50);
/// ... and not more often than this.
const PAUSES_MAX: usize = 8;

/// A transaction that wants to commit.
pub(super) struct Proposal {
    /// What it has read at; `None` if it depends on nothing.
    pub(super) snapshot: Option<OpenSnapshot>,
    pub(super) overlay: Overlay,
    /// The keys that its deleted ranges hold in its snapshot.
    pub(super) cleared_keys: Vec<Bytes>,
    pub(super) answer: oneshot::Sender<Answer>,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Proposal>,
    bytes: usize,
    closed: bool,
    /// How many were taken together the last time.
    last: usize,
    patience: Patience,
    load: Load,
}

/// Whether it pays to let others go first.
#[derive(Default)]
struct Patience {
    /// For so many groups it does not.
    hurried_groups: u32,
}

impl Patience {
    fn for_a_group(&mut self) -> bool {
        let patient = self.hurried_groups == 0;
        self.hurried_groups = self.hurried_groups.saturating_sub(1);
        patient
    }

    /// Others went first. Says whether they may once more.
    fn learn(&mut self, took: Duration, brought: usize) -> bool {
        let brought = u32::try_from(brought).unwrap_or(u32::MAX);
        if took > TURN_MAX.saturating_add(TURN_PER_COMMIT.saturating_mul(brought)) {
            self.hurried_groups = HURRIED_GROUPS;
            return false;
        }
        brought > 0
    }
}

impl Proposal {
    /// The version that it has read at. What depends on nothing is as if it had read the last of all.
    pub(super) fn version(&self) -> u64 {
        self.snapshot.as_ref().map_or(u64::MAX, |snapshot| snapshot.at().version)
    }
}

impl Queue {
    /// How many commits wait.
    pub(super) fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    pub(super) fn push(&self, proposal: Proposal) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(EngineError::Closed);
        }
        if state.waiting.len() >= PROPOSALS_MAX {
            return Err(EngineError::Busy { what: "the queue of commits", max: PROPOSALS_MAX });
        }
        let bytes = state.bytes + proposal.overlay.bytes();
        if bytes > BYTES_MAX && !state.waiting.is_empty() {
            return Err(EngineError::Busy { what: "the queue of commits, in bytes,", max: BYTES_MAX });
        }
        state.bytes = bytes;
        state.waiting.push(proposal);
        let awaited = [1, WANTED].contains(&state.waiting.len());
        drop(state);
        if awaited {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, once something does. `false` when the queue is closed and empty.
    ///
    /// Those who are about to commit may stand in line for a processor: they go first, and share the group. Where strangers
    /// stand there instead, nobody does for a while; and who commits alone is not made to wait. When the process has all
    /// processors busy, a group waits for company.
    pub(super) fn take(&self, into: &mut Vec<Proposal>) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            self.filled.wait(&mut state);
        }
        self.gather(&mut state);
        state.last = state.waiting.len();
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        true
    }

    /// Makes the group larger where that costs nobody anything.
    fn gather(&self, state: &mut MutexGuard<'_, State>) {
        if state.last <= 1 && state.waiting.len() == 1 {
            return; // someone is alone
        }
        if !state.load.is_busy() {
            return let_others_go_first(state);
        }
        for _ in 0..PAUSES_MAX {
            let before = state.waiting.len();
            if before >= WANTED || state.closed {
                return;
            }
            self.filled.wait_for(state, PAUSE);
            if state.waiting.len() == before {
                return;
            }
        }
    }

    /// Closes, and lets go of what waits: their commits are answered as unknown.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }
}

/// As long as that brings more commits.
fn let_others_go_first(state: &mut MutexGuard<'_, State>) {
    if !state.patience.for_a_group() {
        return;
    }
    for _ in 0..GATHERED_MAX {
        let before = state.waiting.len();
        #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
        let begun = Instant::now();
        MutexGuard::unlocked(state, thread::yield_now);
        let brought = state.waiting.len().saturating_sub(before);
        if !state.patience.learn(begun.elapsed(), brought) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_first_as_long_as_they_bring_commits() {
        let mut patience = Patience::default();
        assert!(patience.for_a_group() && patience.learn(TURN_MAX, 1));
        assert!(!patience.learn(TURN_MAX, 0) && patience.for_a_group());
        let many = TURN_PER_COMMIT * 500;
        assert!(patience.learn(many, 500), "they had much to do");
        assert!(patience.for_a_group());
    }

    #[test]
    fn groups_are_taken_as_they_are_for_a_while_where_strangers_take_the_turn() {
        let slice = Duration::from_millis(3);
        for brought in [0, 2] {
            let mut patience = Patience::default();
            assert!(patience.for_a_group() && !patience.learn(slice, brought));
            assert!((0..HURRIED_GROUPS).all(|_| !patience.for_a_group()));
            assert!(patience.for_a_group(), "then it tries again");
        }
    }
}
