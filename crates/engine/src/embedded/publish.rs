//! A group that is on disk: it is shown to readers, and only then answered.
//!
//! Groups are shown in order. Mostly the sequencer does it. Where those who wait take long to wake, as threads do, it goes on
//! with the next group, and the answerer does it meanwhile.

use super::{Shared, log::frame};
use crate::group::{Answer, Callers, refuse_all};
use bytes::Bytes;
use futures_channel::oneshot;
use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Answers that take less are given by the sequencer: about what it takes to wake another thread, and to get out of its way.
const QUICK: Duration = Duration::from_micros(25);
/// Of what is believed of an answer, each group changes a part in so many.
const BELIEVED_GROUPS: u64 = 8;

pub(super) struct SyncedGroup {
    pub(super) version: u64,
    pub(super) frame: Bytes,
    pub(super) callers: Callers,
}

/// What the answerer is given, in order.
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
        shared.waking.measure(callers);
        shared.tree.merge_small(|| shared.oldest_snapshot().seqno);
        shared.janitor.note_group(&shared.tree);
    }
}

/// How long an answer takes. A task is put into a line; a thread is woken by the kernel, which takes ten times as long.
#[derive(Default)]
pub(super) struct Waking {
    answer_ns: AtomicU64,
}

impl Waking {
    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides who answers")]
    fn measure(&self, callers: Callers) {
        let (count, begun) = (callers.len().max(1) as u64, Instant::now());
        callers.succeed();
        let took_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX) / count;
        let before = self.answer_ns.load(Ordering::Relaxed);
        self.answer_ns.store(before - before / BELIEVED_GROUPS + took_ns / BELIEVED_GROUPS, Ordering::Relaxed);
    }

    /// Whether these are better answered by another thread.
    pub(super) fn is_long(&self, callers: &Callers) -> bool {
        let ns = self.answer_ns.load(Ordering::Relaxed).saturating_mul(callers.len() as u64);
        Duration::from_nanos(ns) > QUICK
    }
}
