//! The queue of commits that wait for the sequencer.

use super::{
    group_policy::{Gather, GroupPolicy},
    snapshots::OpenSnapshot,
};
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
/// The bytes that they may hold together: some dozens of the largest transactions.
const BYTES_MAX: usize = 256 << 20;

/// A transaction that wants to commit.
pub(super) struct Proposal {
    /// The snapshot of its reads; `None` if it depends on nothing.
    pub(super) snapshot: Option<OpenSnapshot>,
    pub(super) overlay: Overlay,
    /// The keys that its deleted ranges hold in its snapshot.
    pub(super) cleared_keys: Vec<Bytes>,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    /// How many commits are in progress, from here to their answer.
    committing: AtomicUsize,
}

/// A commit that is in progress.
pub(super) struct Committing<'a>(&'a AtomicUsize);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct State {
    waiting: Vec<Proposal>,
    bytes: usize,
    closed: bool,
    policy: GroupPolicy,
    /// How many a group waits for that is about to be taken.
    awaited: usize,
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
    pub(super) fn new(policy: GroupPolicy) -> Self {
        let state = State { waiting: Vec::new(), bytes: 0, closed: false, policy, awaited: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), committing: AtomicUsize::new(0) }
    }

    pub(super) fn enter(&self) -> Committing<'_> {
        self.committing.fetch_add(1, Ordering::Relaxed);
        Committing(&self.committing)
    }

    /// Whether the next group is there, and worth a sync while the last one is answered.
    pub(super) fn has_next_group(&self) -> bool {
        let mut state = self.state.lock();
        let count = state.waiting.len();
        state.policy.is_next_group(count)
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
        state.policy.see_committers(self.committing.load(Ordering::Relaxed));
        let awaited = [1, state.awaited].contains(&state.waiting.len()) || was_small && state.is_large();
        drop(state);
        if awaited {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, once something does, and after what the policy says. `false` when the queue is closed and empty.
    pub(super) fn take(&self, into: &mut Vec<Proposal>) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            self.filled.wait(&mut state);
        }
        let in_vain = self.gather(&mut state);
        let count = state.waiting.len();
        state.policy.taken(count, in_vain);
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        true
    }

    /// Makes the group larger, as the policy says. Tells whether it waited in vain.
    fn gather(&self, state: &mut MutexGuard<'_, State>) -> bool {
        let count = state.waiting.len();
        match state.policy.gather(count) {
            Gather::Nothing => false,
            Gather::Yield { times_max } => {
                yield_to_others(state, times_max);
                false
            }
            Gather::Await { commits, max } => self.wait_for(state, commits, max),
        }
    }

    fn wait_for(&self, state: &mut MutexGuard<'_, State>, commits: usize, max: Duration) -> bool {
        #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
        let until = Instant::now() + max;
        state.awaited = commits;
        let lacks = |state: &State| state.waiting.len() < commits && !state.is_large() && !state.closed;
        while lacks(state) && !self.filled.wait_until(state, until).timed_out() {}
        let in_vain = lacks(state);
        state.awaited = 0;
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
fn yield_to_others(state: &mut MutexGuard<'_, State>, times_max: usize) {
    for _ in 0..times_max {
        let before = state.waiting.len();
        #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
        let begun = Instant::now();
        MutexGuard::unlocked(state, thread::yield_now);
        let brought = state.waiting.len().saturating_sub(before);
        if !state.policy.yielded(begun.elapsed(), brought) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(value_bytes: usize) -> Proposal {
        let mut overlay = Overlay::default();
        overlay.put(b"key", vec![0; value_bytes].into()).unwrap();
        Proposal { snapshot: None, overlay, cleared_keys: Vec::new(), answer: oneshot::channel().0 }
    }

    /// A queue that takes the CPUs for saturated, where `others` commit besides.
    fn busy(others: usize) -> Queue {
        let queue = Queue::new(GroupPolicy::saturated());
        queue.committing.store(others, Ordering::Relaxed);
        queue
    }

    #[test]
    fn a_group_waits_for_those_who_are_missing_and_for_nobody_else() {
        for (commits, in_vain) in [(9, true), (10, false), (11, false)] {
            let queue = busy(30);
            (0..commits).for_each(|_| queue.push(proposal(1)).unwrap());
            let mut taken = Vec::new();
            assert!(queue.take(&mut taken) && taken.len() == commits);
            let mut policy = GroupPolicy::saturated();
            policy.see_committers(30);
            policy.taken(commits, in_vain);
            assert_eq!(queue.state.lock().policy.seen(), policy.seen(), "{commits}");
        }
    }

    #[test]
    fn the_next_group_is_there_when_nobody_is_waited_for() {
        let queue = busy(90);
        (0..29).for_each(|_| queue.push(proposal(1)).unwrap());
        assert!(!queue.has_next_group(), "one more is waited for");
        queue.push(proposal(1)).unwrap();
        assert!(queue.has_next_group());
        let few = busy(30);
        (0..24).for_each(|_| few.push(proposal(1)).unwrap());
        assert!(!few.has_next_group(), "all are there, and they are not worth it");
        few.push(proposal(1)).unwrap();
        assert!(few.has_next_group());
    }

    #[test]
    fn a_full_group_waits_for_nobody() {
        let queue = busy(300);
        (0..GROUP_BYTES / 50_000 + 1).for_each(|_| queue.push(proposal(50_000)).unwrap());
        let mut taken = Vec::new();
        assert!(queue.state.lock().is_large() && queue.take(&mut taken));
        let mut policy = GroupPolicy::saturated();
        policy.see_committers(300);
        policy.taken(taken.len(), false);
        assert_eq!(queue.state.lock().policy.seen(), policy.seen(), "not in vain");
    }
}
