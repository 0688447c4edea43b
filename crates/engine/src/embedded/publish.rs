//! Publishing a commit group that is on disk: it becomes visible to readers, and is then answered.
//!
//! Groups are published in order, usually by the sequencer. Where waking the waiting callers takes long, as with threads, the
//! sequencer continues with the next group and another thread, the answerer, publishes this one (`group_policy.rs` decides).

use super::{Shared, log::frame};
use crate::group::{Answer, Callers, refuse_all};
use bytes::Bytes;
use futures_channel::oneshot;
use std::sync::mpsc;

pub(super) struct SyncedGroup {
    pub(super) version: u64,
    pub(super) frame: Bytes,
    pub(super) callers: Callers,
}

/// The work of the answering thread, in order.
pub(super) enum Work {
    Settle(SyncedGroup),
    /// Commits that lost a race against a group that was given before.
    Refuse(Vec<oneshot::Sender<Answer>>),
}

/// The answerer's thread.
pub(super) fn answer(shared: &Shared, work: &mpsc::Receiver<Work>) {
    while let Ok(work) = work.recv() {
        match work {
            Work::Settle(durable) => durable.settle(shared),
            Work::Refuse(conflicts) => refuse_all(conflicts),
        }
    }
}

impl SyncedGroup {
    /// Lets readers see it, then answers, and then puts memory in order. All groups before it have been shown.
    pub(super) fn settle(self, shared: &Shared) {
        let Self { version, frame, callers } = self;
        let writes = frame::writes(&frame);
        shared.watermark.note(version);
        shared.key_cache.show(version, &writes);
        shared.range_cache.show(version, &writes);
        let (newest, run) = shared.tree.show(version, writes, frame.len());
        shared.snapshots.publish(newest);
        shared.watches.wake(run.iter().map(|entry| &entry.key));
        shared.answer_cost.measure(callers.len(), || callers.succeed());
        shared.tree.merge_small(|| shared.oldest_snapshot().seqno);
        shared.janitor.note_group(&shared.tree);
    }
}
