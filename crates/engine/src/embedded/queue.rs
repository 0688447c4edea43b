//! Commits on their way to the sequencer.

use super::{cpu_load::CpuLoad, snapshots::OpenSnapshot};
use crate::{
    EngineError,
    group::{Answer, GROUP_BYTES},
    overlay::Overlay,
};
use bytes::Bytes;
use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
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
const COMPANY_MIN: usize = 4;
const COMPANY_MAX: usize = 128;
/// ... and so long at most.
const PAUSE: Duration = Duration::from_millis(2);
/// After so many groups, one less is believed to be there than was seen.
const BELIEVED_GROUPS: usize = 8;

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
    /// How many commits are under way, from here to their answer.
    committing: AtomicUsize,
}

/// A commit that is under way.
pub(super) struct Committing<'a>(&'a AtomicUsize);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct State {
    waiting: Vec<Proposal>,
    bytes: usize,
    closed: bool,
    /// How many were taken together the last time.
    last: usize,
    patience: Patience,
    load: CpuLoad,
    crowd: Crowd,
    /// How many a group waits for that is about to be taken.
    wanted: usize,
}

/// How many commit at a time, as far as that was seen lately.
///
/// A group waits for a third of them at most: the others keep the processors busy meanwhile. Of a few, it waits for none.
#[derive(Default)]
struct Crowd {
    /// Their number, times [`BELIEVED_GROUPS`].
    seen: usize,
}

impl Crowd {
    fn see(&mut self, count: usize) {
        self.seen = self.seen.max(count * BELIEVED_GROUPS);
    }

    fn wanted(&self) -> usize {
        let third = self.seen / BELIEVED_GROUPS / 3;
        if third < COMPANY_MIN { 0 } else { third.min(COMPANY_MAX) }
    }

    /// Slowly, what was seen is not believed any more; faster, if those who were waited for did not come.
    fn forget(&mut self, in_vain: bool) {
        let disbelieved = if in_vain { self.seen.div_ceil(4) } else { 1 };
        self.seen = self.seen.saturating_sub(disbelieved);
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

impl State {
    /// More would not become part of the same group.
    fn is_large(&self) -> bool {
        self.bytes >= GROUP_BYTES
    }
}

impl Proposal {
    /// The version that it has read at. What depends on nothing is as if it had read the last of all.
    pub(super) fn version(&self) -> u64 {
        self.snapshot.as_ref().map_or(u64::MAX, |snapshot| snapshot.at().version)
    }
}

impl Queue {
    pub(super) fn enter(&self) -> Committing<'_> {
        self.committing.fetch_add(1, Ordering::Relaxed);
        Committing(&self.committing)
    }

    /// Whether so many commits wait, and all whom the next group would wait for.
    pub(super) fn has_next_group(&self, min: usize) -> bool {
        let mut state = self.state.lock();
        let count = state.waiting.len();
        count >= min && (count >= state.crowd.wanted() || !state.load.is_busy())
    }

    pub(super) fn push(&self, proposal: Proposal) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(EngineError::Closed);
        }
        if state.waiting.len() >= PROPOSALS_MAX {
            return Err(EngineError::Busy { what: "the queue of commits", max: PROPOSALS_MAX });
        }
        let (was_small, bytes) = (!state.is_large(), state.bytes + proposal.overlay.bytes());
        if bytes > BYTES_MAX && !state.waiting.is_empty() {
            return Err(EngineError::Busy { what: "the queue of commits, in bytes,", max: BYTES_MAX });
        }
        state.bytes = bytes;
        state.waiting.push(proposal);
        state.crowd.see(self.committing.load(Ordering::Relaxed));
        let awaited = [1, state.wanted].contains(&state.waiting.len()) || was_small && state.is_large();
        drop(state);
        if awaited {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, once something does. `false` when the queue is closed and empty.
    ///
    /// Those who are about to commit may stand in line for a processor: they go first, and share the group. Where strangers
    /// stand there instead, nobody does for a while; and who commits alone, again and again, is not made to wait. When the
    /// process has the processors busy and many commit, a group waits for company.
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
        state.crowd.forget(in_vain);
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        true
    }

    /// Makes the group larger where that takes nothing from those who are not in it. Says whether it waited in vain.
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
        let lacks = |state: &State| state.waiting.len() < state.wanted && !state.is_large() && !state.closed;
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
        crowd.see(3 * COMPANY_MIN - 1);
        assert_eq!(crowd.wanted(), 0, "these are few");
        crowd.see(32);
        crowd.see(1);
        assert_eq!(crowd.wanted(), 10);
        (0..5 * BELIEVED_GROUPS).for_each(|_| crowd.forget(false));
        assert_eq!(crowd.wanted(), 9);
        crowd.forget(true);
        assert_eq!(crowd.wanted(), 6, "they do not come any more");
        crowd.see(1_000);
        assert_eq!(crowd.wanted(), COMPANY_MAX);
        (0..20).for_each(|_| crowd.forget(true));
        assert_eq!(crowd.wanted(), 0);
    }

    fn proposal(value_bytes: usize) -> Proposal {
        let mut overlay = Overlay::default();
        overlay.put(b"key", vec![0; value_bytes].into()).unwrap();
        Proposal { snapshot: None, overlay, cleared_keys: Vec::new(), answer: oneshot::channel().0 }
    }

    /// Lets the queue believe that the processors are busy and that `others` commit besides.
    fn busy(others: usize) -> Queue {
        let queue = Queue::default();
        queue.committing.store(others, Ordering::Relaxed);
        let mut state = queue.state.lock();
        (state.load, state.last) = (CpuLoad::always_busy(), 2);
        drop(state);
        queue
    }

    #[test]
    fn a_group_waits_for_those_who_are_missing_and_for_nobody_else() {
        for (commits, in_vain) in [(9, true), (10, false), (11, false)] {
            let queue = busy(30);
            (0..commits).for_each(|_| queue.push(proposal(1)).unwrap());
            let mut taken = Vec::new();
            assert!(queue.take(&mut taken) && taken.len() == commits);
            let mut crowd = Crowd::default();
            crowd.see(30);
            crowd.forget(in_vain);
            assert_eq!(queue.state.lock().crowd.seen, crowd.seen, "{commits}");
        }
    }

    #[test]
    fn the_next_group_is_there_when_nobody_is_waited_for() {
        let queue = busy(30);
        (0..9).for_each(|_| queue.push(proposal(1)).unwrap());
        assert!(!queue.has_next_group(8), "one more is waited for");
        queue.push(proposal(1)).unwrap();
        assert!(queue.has_next_group(8) && !queue.has_next_group(11));
    }

    #[test]
    fn a_full_group_waits_for_nobody() {
        let queue = busy(300);
        (0..GROUP_BYTES / 50_000 + 1).for_each(|_| queue.push(proposal(50_000)).unwrap());
        let mut taken = Vec::new();
        assert!(queue.state.lock().is_large() && queue.take(&mut taken));
        assert_eq!(queue.state.lock().crowd.seen, 300 * BELIEVED_GROUPS - 1, "not in vain");
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
