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

/// While the processors are busy, a group may wait for so many commits at most ...
const COMPANY_MAX: usize = 128;
/// ... and so long.
const PAUSE: Duration = Duration::from_millis(2);

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
    crowd: Crowd,
    /// How many a group waits for that is about to be taken.
    wanted: usize,
}

/// How many commit at a time, as far as that was seen lately.
///
/// A group waits for a third of them at most: the others keep the processors busy meanwhile.
#[derive(Default)]
struct Crowd {
    size: usize,
    /// Those who were taken last and are not answered yet.
    taken: usize,
}

impl Crowd {
    fn see(&mut self, waiting: usize) {
        self.size = self.size.max(waiting + self.taken);
    }

    fn wanted(&self) -> usize {
        (self.size / 3).min(COMPANY_MAX)
    }

    /// Slowly, what was seen is not believed any more; faster, if those who were waited for did not come.
    fn take(&mut self, count: usize, in_vain: bool) {
        let disbelieved = if in_vain { self.size.div_ceil(4) } else { 1 };
        *self = Self { size: self.size.saturating_sub(disbelieved), taken: count };
    }
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
        let count = state.waiting.len();
        state.crowd.see(count);
        let awaited = [1, state.wanted].contains(&count);
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
        let in_vain = self.gather(&mut state);
        state.last = state.waiting.len();
        let count = state.last;
        state.crowd.take(count, in_vain);
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        true
    }

    /// Those who were taken last are answered.
    pub(super) fn settled(&self) {
        self.state.lock().crowd.taken = 0;
    }

    /// Makes the group larger where that costs nobody anything. Says whether it waited in vain.
    fn gather(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if state.last <= 1 && state.waiting.len() == 1 {
            return false; // someone is alone
        }
        if !state.load.is_busy() {
            let_others_go_first(state);
            return false;
        }
        #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
        let until = Instant::now() + PAUSE;
        state.wanted = state.crowd.wanted();
        let lacks = |state: &State| state.waiting.len() < state.wanted && !state.closed;
        while lacks(state) && !self.filled.wait_until(state, until).timed_out() {}
        let in_vain = lacks(state);
        state.wanted = 0;
        in_vain
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
    fn groups_wait_for_a_third_of_those_who_were_seen() {
        let mut crowd = Crowd::default();
        crowd.see(1);
        assert_eq!(crowd.wanted(), 0, "nobody waits for others who is alone");
        crowd.take(20, false);
        crowd.see(12);
        assert_eq!(crowd.wanted(), 10, "20 of them on their way to the disk");
        (0..5).for_each(|_| crowd.take(12, false));
        assert_eq!(crowd.wanted(), 9);
        crowd.take(12, true);
        assert_eq!(crowd.wanted(), 6, "they do not come any more");
        crowd.see(1_000);
        assert_eq!(crowd.wanted(), COMPANY_MAX);
        (0..30).for_each(|_| crowd.take(1, true));
        assert_eq!(crowd.wanted(), 0);
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
