//! Compaction beside the turns of a world: consumed inbox items are removed, and old records move into segments.
//!
//! A runner only says that a world is due, and continues with its turns. A few tasks do the work, one world at a time each. All
//! transactions are under the world's fence: a world that was released meanwhile is left to its next holder, which continues
//! from the checkpoint.

use super::{Phase, SegmentPolicy, Shared, runner::name_of};
use crate::{Plane, metrics::Metric, signal::Signal};
use mundi_model::{Code, Coded, WorldId};
use mundi_store::{
    Fence, StoreError,
    protocol::{ExportPolicy, compact_inbox},
    segments::{Compacted, Compactor, CompactorConfig},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Worlds that are compacted at the same time. Each waits for the object store most of the time, and holds one segment in memory.
pub(super) const COMPACTORS: usize = 4;

/// The worlds that are due.
#[derive(Default)]
pub(super) struct Compactions {
    queue: Mutex<Queue>,
    /// A world is due, or the worker ends.
    work: Signal,
}

#[derive(Default)]
struct Queue {
    /// Each world once: no more than the worker holds.
    waiting: VecDeque<Due>,
    running: BTreeSet<WorldId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    fence: Fence,
    export: Option<ExportPolicy>,
}

impl Compactions {
    /// A world was snapshotted, or its export was asked for; its records leave the engine only by a policy.
    pub(super) fn submit(&self, fence: Fence, export: Option<ExportPolicy>) {
        self.queue.lock().add(Due { fence, export });
        self.work.notify_one();
    }

    pub(super) fn wake(&self) {
        self.work.notify();
    }

    fn done(&self, world: WorldId) {
        self.queue.lock().running.remove(&world);
        self.work.notify_one(); // the world may wait again already
    }
}

impl Queue {
    fn add(&mut self, due: Due) {
        match self.waiting.iter_mut().find(|waiting| waiting.fence.world == due.fence.world) {
            Some(waiting) => *waiting = Due { fence: due.fence, export: due.export.or(waiting.export) },
            None => self.waiting.push_back(due),
        }
    }

    /// The one that has waited longest, of those that no runner has.
    fn next(&mut self) -> Option<Due> {
        let at = self.waiting.iter().position(|due| !self.running.contains(&due.fence.world))?;
        let due = self.waiting.remove(at)?;
        self.running.insert(due.fence.world);
        Some(due)
    }
}

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    loop {
        let seen = shared.compactions.work.version();
        if shared.phase() == Phase::Over {
            return;
        }
        let due = shared.compactions.queue.lock().next();
        match due {
            Some(due) => {
                if let Err(error) = compact(&shared, due).await {
                    report(&shared, &error, due.fence).await;
                }
                shared.compactions.done(due.fence.world);
            }
            None => shared.compactions.work.changed(seen).await,
        }
    }
}

/// A failure is no failure of the world: it is tried again with the next snapshot.
async fn report<P: Plane>(shared: &Shared<P>, error: &StoreError, fence: Fence) {
    match error.code() {
        Code::LeaseFenced => {
            tracing::debug!(world = %fence.world, "compaction was interrupted; the next holder continues");
        }
        code => {
            let name = name_of(shared, fence.world).await;
            tracing::warn!(%error, %code, world = %fence.world, name, "compaction failed; old records and items stay in the engine for now");
        }
    }
}

async fn compact<P: Plane>(shared: &Shared<P>, due: Due) -> Result<(), StoreError> {
    let Due { fence, export } = due;
    let (engine, clock) = (shared.plane.engine(), shared.plane.clock());
    let removed = compact_inbox(engine, &**clock, fence, shared.config.inbox_grace_ns).await?;
    shared.metrics.add(Metric::InboxItemsCompacted, removed as u64);
    let Some(records) = export else { return Ok(()) };
    let SegmentPolicy { segments_max, delete_pause, .. } = shared.config.segments;
    let config = CompactorConfig { policy: records, delete_pause, ..CompactorConfig::default() };
    let compactor = Compactor::new(shared.plane.segments().clone(), clock.clone(), config);
    for _ in 0..segments_max.max(1) {
        let Compacted::Exported { records, .. } = compactor.turn(fence).await? else { return Ok(()) };
        shared.metrics.add(Metric::SegmentsExported, 1);
        shared.metrics.add(Metric::SegmentRecords, records);
    }
    shared.compactions.submit(fence, export); // other worlds first
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Epoch, UniverseId};

    fn due(world: u8, epoch: u64, export: bool) -> Due {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([world; 16]));
        let export = export.then_some(ExportPolicy::DEFAULT);
        Due { fence: Fence { universe, world, epoch: Epoch::new(epoch).unwrap() }, export }
    }

    #[test]
    fn a_world_waits_once_and_nobody_is_at_it_twice() {
        let mut queue = Queue::default();
        queue.add(due(1, 1, true));
        queue.add(due(2, 1, false));
        queue.add(due(1, 2, false));
        assert_eq!(queue.next(), Some(due(1, 2, true)), "its newest fence, and all that was wanted");
        queue.add(due(1, 2, true));
        assert_eq!(queue.next(), Some(due(2, 1, false)));
        assert_eq!(queue.next(), None, "somebody is at it");
        queue.running.remove(&due(1, 1, true).fence.world);
        assert_eq!(queue.next(), Some(due(1, 2, true)));
    }
}
