//! A group on its way: to the disk by the sequencer, and meanwhile into the tree by the applier. Whoever of the two comes
//! last shows it to readers and then answers.
//!
//! What is in the tree and not yet shown is seen by nobody, because no snapshot reaches so far. If the disk fails, it is
//! overwritten with what was there before, and only then does the sequencer go on. So at most one group is in the tree
//! without being on disk, and a memory table is closed only between groups: no file ever holds such a group.

use super::{Shared, log::frame};
use crate::{
    EngineError,
    group::{Answer, Callers, refuse_all},
    recent::Writes,
};
use bytes::Bytes;
use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock, mpsc};

/// What the applier is given, in order.
pub(super) enum Work {
    /// To be staged, after the group before it is shown if nobody has done that yet.
    Group(Arc<Passage>, Option<Durable>),
    /// Commits that lost a race against a group that was given before.
    Refuse(Vec<oneshot::Sender<Answer>>),
}

pub(super) struct Passage {
    version: u64,
    frame: Bytes,
    /// Those of the frame, once someone has asked for them: best not who writes it.
    writes: OnceLock<Writes>,
    state: Mutex<State>,
    staged: Condvar,
}

/// A group that is on disk, and those who are to be told.
pub(super) struct Durable(pub(super) Arc<Passage>, pub(super) Callers);

impl Durable {
    pub(super) fn settle(self, shared: &Shared) {
        self.0.settle(shared, self.1);
    }
}

#[derive(Default)]
struct State {
    staged: bool,
    /// Who is to be told, once it is on disk.
    durable: Option<Callers>,
}

/// The applier's thread.
pub(super) fn apply(shared: &Shared, work: &mpsc::Receiver<Work>) {
    while let Ok(work) = work.recv() {
        match work {
            Work::Group(passage, before) => {
                if let Some(durable) = before {
                    durable.settle(shared);
                }
                passage.stage(shared);
            }
            Work::Refuse(conflicts) => refuse_all(conflicts),
        }
    }
}

impl Passage {
    pub(super) fn new(version: u64, frame: Bytes) -> Self {
        Self { version, frame, writes: OnceLock::new(), state: Mutex::default(), staged: Condvar::new() }
    }

    fn writes(&self) -> &Writes {
        self.writes.get_or_init(|| frame::writes(&self.frame))
    }

    /// Puts it into the tree. All groups before it have been shown or taken back.
    pub(super) fn stage(&self, shared: &Shared) {
        shared.janitor.seal_if_large(&shared.tree);
        shared.tree.stage(self.writes());
        let mut state = self.state.lock();
        state.staged = true;
        let durable = state.durable.take();
        drop(state);
        self.staged.notify_one();
        if let Some(callers) = durable {
            self.show(shared, callers);
        }
    }

    /// It is on disk.
    fn settle(&self, shared: &Shared, callers: Callers) {
        let mut state = self.state.lock();
        if state.staged {
            drop(state);
            self.show(shared, callers);
        } else {
            state.durable = Some(callers);
        }
    }

    /// It did not reach the disk, or nobody knows: as if it had never been in the tree.
    pub(super) fn take_back(&self, shared: &Shared) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        while !state.staged {
            self.staged.wait(&mut state);
        }
        shared.tree.take_back(self.writes(), shared.snapshots.newest().seqno)
    }

    /// Lets readers see it, and only then answers.
    fn show(&self, shared: &Shared, callers: Callers) {
        shared.watermark.note(self.version);
        shared.janitor.note_commit();
        shared.hot.show(self.version, self.writes());
        shared.ranges.show(self.version, self.writes());
        shared.snapshots.publish(shared.tree.show(self.version));
        shared.watches.wake(self.writes().iter().map(|(key, _)| key));
        callers.succeed();
    }
}
