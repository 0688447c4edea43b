//! Snapshots: when, and how memory and journal stay in step about them.

use super::{Tail, WorldHost};
use crate::{
    Plane, RuntimeError,
    objects::{AtHand, with_objects},
    snapshots::{KernelSnapshots, store_cells},
};
use bytes::Bytes;
use mundi_kernel::{LoadError, Note, snapshot::TakenSnapshot};
use mundi_model::record::SnapshotNote;
use mundi_store::{
    protocol::{CommitSnapshot, commit_snapshot},
    snapshot::ReadSnapshot,
};

/// When a world's tail is long enough for another snapshot. Any of them suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPolicy {
    pub records: u64,
    pub bytes: u64,
    /// How old the oldest record above the newest snapshot may grow.
    pub age_ns: u64,
}

impl Default for SnapshotPolicy {
    /// A restore replays at most about a tenth of a second of records.
    fn default() -> Self {
        Self { records: 10_000, bytes: 8 << 20, age_ns: 600_000_000_000 }
    }
}

impl SnapshotPolicy {
    pub fn is_due(&self, tail: Tail, now_ns: u64) -> bool {
        let age_ns = tail.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        tail.records > 0 && (tail.records >= self.records || tail.bytes >= self.bytes || age_ns >= self.age_ns)
    }
}

impl SnapshotPolicy {
    /// When a tail that does not grow needs one.
    pub fn due_ns(&self, tail: Tail) -> Option<u64> {
        tail.since_ns.filter(|_| tail.records > 0).map(|since_ns| since_ns.saturating_add(self.age_ns))
    }
}

impl<P: Plane> WorldHost<P> {
    /// Takes a snapshot if the policy asks for one.
    pub async fn snapshot_if_due(&mut self, policy: &SnapshotPolicy) -> Result<Option<SnapshotNote>, RuntimeError> {
        if !policy.is_due(self.tail, self.plane.now_ns()) {
            return Ok(None);
        }
        Box::pin(self.snapshot()).await
    }

    /// Takes a snapshot, makes it the baseline, and journals both. Nothing if nothing happened since the last.
    pub async fn snapshot(&mut self) -> Result<Option<SnapshotNote>, RuntimeError> {
        if self.tail.records == 0 {
            return Ok(None);
        }
        let taken = self.take().await?;
        let universe = self.fence.universe;
        let own = taken.note.snapshot;
        let cells = taken.objects.iter().filter(|(hash, _)| *hash != own).cloned().collect();
        store_cells(&self.plane, universe, cells).await?;
        let bytes = Bytes::from_owner(taken.bytes.clone());
        let request = CommitSnapshot { fence: self.fence, bytes: bytes.clone(), promote: true };
        let (engine, clock) = (self.plane.engine(), &**self.plane.clock());
        let committed = commit_snapshot(engine, clock, self.plane.blobs(), &KernelSnapshots, &request).await?;
        self.world.saved(&taken);
        self.at_hand.insert(own, &bytes);
        self.at_hand.note_stored(KernelSnapshots.facts(&bytes).map(|facts| facts.roots).unwrap_or_default());
        self.put_on_record(&committed.note).await?;
        if (self.world.head(), self.world.chain()) != (committed.head.height, committed.head.chain) {
            let (journal, memory) = (committed.head.height, self.world.head());
            return Err(RuntimeError::MemoryStale { world: self.fence.world, journal, memory });
        }
        self.tail = Tail::default();
        self.at_hand.trim();
        Ok(Some(committed.note))
    }

    async fn take(&mut self) -> Result<TakenSnapshot, RuntimeError> {
        let (world, address) = (&mut self.world, (self.fence.universe, self.fence.world));
        let take = |objects: &AtHand| -> Result<TakenSnapshot, LoadError> { world.snapshot(objects) };
        with_objects(&self.plane, address, &mut self.at_hand, take).await
    }

    /// The store has appended these notes; the memory follows.
    async fn put_on_record(&mut self, note: &SnapshotNote) -> Result<(), RuntimeError> {
        let address = self.address();
        for note in [Note::Snapshot(note.clone()), Note::Baseline(note.clone())] {
            let world = &mut self.world;
            let follow = |objects: &AtHand| world.note(objects, note.clone()).map(|turn| drop(turn.keep()));
            with_objects(&self.plane, address, &mut self.at_hand, follow).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_by_records_bytes_or_age_and_never_for_nothing() {
        let policy = SnapshotPolicy { records: 10, bytes: 100, age_ns: 1_000 };
        let tail = |records, bytes, since_ns| Tail { records, bytes, since_ns };
        assert!(!policy.is_due(tail(9, 99, Some(5)), 1_004));
        for due in [tail(10, 0, Some(5)), tail(1, 100, Some(5)), tail(1, 1, Some(4))] {
            assert!(policy.is_due(due, 1_004));
        }
        assert!(!policy.is_due(tail(0, 0, None), u64::MAX));
    }
}
