//! Commits on their way to the sequencer.

use super::snapshots::OpenSnapshot;
use crate::{EngineError, group::Answer, overlay::Overlay};
use bytes::Bytes;
use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::thread;

/// More waiting commits than any machine has clients; beyond it, callers back off.
const PROPOSALS_MAX: usize = 65_536;
/// What they may hold together: some dozens of the largest transactions.
const BYTES_MAX: usize = 256 << 20;

/// How often the sequencer lets others go first, as long as that brings more commits.
const GATHERED_MAX: usize = 16;

/// A transaction that wants to commit.
pub(super) struct Proposal {
    pub(super) snapshot: OpenSnapshot,
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
}

impl Queue {
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
        let was_empty = state.waiting.len() == 1;
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, once something does. `false` when the queue is closed and empty.
    ///
    /// On a busy machine those who are about to commit stand in line for a processor: they go first, and share the group. On
    /// an idle one nobody stands there, and who commits alone is not made to wait.
    pub(super) fn take(&self, into: &mut Vec<Proposal>) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            self.filled.wait(&mut state);
        }
        let alone = state.last <= 1 && state.waiting.len() == 1;
        for _ in 0..if alone { 0 } else { GATHERED_MAX } {
            let before = state.waiting.len();
            MutexGuard::unlocked(&mut state, thread::yield_now);
            if state.waiting.len() == before {
                break;
            }
        }
        state.last = state.waiting.len();
        std::mem::swap(&mut state.waiting, into);
        state.bytes = 0;
        true
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
