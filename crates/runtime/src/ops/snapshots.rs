//! Snapshots, baselines and segments: what bounds a restore, and what leaves the engine.
//!
//! They are written under a world's lease. If a worker holds it, that worker is asked by mail and does it in the world's
//! next cycle; if nobody does, it is done here, in the name of the caller.

use super::Ops;
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    host::WorldHost,
    shell::{Command, send_commands},
};
use mundi_engine::Engine;
use mundi_model::{Height, WorkerId, WorldId, record::SnapshotNote};
use mundi_store::{
    Fence,
    blob::Blobs,
    keyspace::snapshot,
    protocol::{CommitSnapshot, ExportPolicy, ListSnapshots, Page, ReleaseLease, commit_snapshot},
    segments::{Compacted, Compactor, CompactorConfig},
    snapshot::SnapshotError,
};
use std::time::Duration;

/// Long enough for a snapshot of much that changed; whoever dies in the middle of it is succeeded then.
const TTL: Duration = Duration::from_secs(60);

/// How a request for upkeep of a world went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upkeep<T> {
    Done(T),
    /// This worker holds the world and was told.
    Asked(WorkerId),
}

impl<P: Plane> Ops<P> {
    /// The snapshots of a world, the newest first, in pages.
    pub async fn list_snapshots(
        &self,
        world: WorldId,
        below: Option<Height>,
        items_max: usize,
    ) -> Result<Page<SnapshotNote, Height>, RuntimeError> {
        Ok(self.plane.run(&ListSnapshots { universe: self.universe, world, below, items_max }).await?.output)
    }

    /// Takes a snapshot of a world and makes it the baseline. `None` if nothing happened since the last one.
    pub async fn take_snapshot(
        &self,
        world: WorldId,
        worker: WorkerId,
    ) -> Result<Upkeep<Option<SnapshotNote>>, RuntimeError> {
        let take = async |fence| WorldHost::restore(self.plane.clone(), fence).await?.snapshot().await;
        self.upkeep(world, worker, Command::Snapshot(world), take).await
    }

    /// Moves what lies far enough below the baseline into segments, all of it. Says how many were written.
    pub async fn export_segments(
        &self,
        world: WorldId,
        worker: WorkerId,
        policy: ExportPolicy,
    ) -> Result<Upkeep<u64>, RuntimeError> {
        let export = async |fence| {
            let mut segments = 0;
            let config = CompactorConfig { policy, ..CompactorConfig::default() };
            let compactor = Compactor::new(self.plane.segments().clone(), self.plane.clock().clone(), config);
            while let Compacted::Exported { .. } = compactor.turn(fence).await? {
                segments += 1;
            }
            Ok(segments)
        };
        self.upkeep(world, worker, Command::Export(world), export).await
    }

    /// Makes a snapshot that a world has the one that restore starts from; it must be newer than the one that is. A worker
    /// that runs the world takes a new one instead, which is newer still.
    pub async fn promote_baseline(
        &self,
        world: WorldId,
        height: Height,
        worker: WorkerId,
    ) -> Result<Upkeep<SnapshotNote>, RuntimeError> {
        let promote = async |fence| {
            let note = snapshot::read(&mut self.plane.engine().begin().await?, self.universe, world, height).await?;
            let note = note.ok_or(SnapshotError::NotFound { world, height })?;
            let bytes = self.plane.blobs().get(self.universe, note.snapshot).await?;
            let request = CommitSnapshot { fence, bytes, promote: true };
            let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
            Ok(commit_snapshot(engine, clock, blobs, &KernelSnapshots, &request).await?.note)
        };
        self.upkeep(world, worker, Command::Snapshot(world), promote).await
    }

    /// Who runs a world. Asked first, because a worker may take its own lease again, and would be fenced by itself.
    async fn holder(&self, world: WorldId) -> Result<Option<WorkerId>, RuntimeError> {
        let lease = self.describe_world(world).await?.lease;
        Ok(lease.filter(|lease| lease.expires_at_ns > self.plane.now_ns()).map(|lease| lease.holder))
    }

    /// Does something under a lease of its own, or tells the worker that holds it.
    async fn upkeep<T>(
        &self,
        world: WorldId,
        worker: WorkerId,
        command: Command,
        work: impl AsyncFnOnce(Fence) -> Result<T, RuntimeError>,
    ) -> Result<Upkeep<T>, RuntimeError> {
        if let Some(holder) = self.holder(world).await? {
            send_commands(&self.plane, self.universe, holder, &[command]).await?;
            return Ok(Upkeep::Asked(holder));
        }
        let fence = self.acquire_lease(world, worker, TTL).await?;
        let done = work(fence).await;
        self.plane.run(&ReleaseLease { fence }).await?;
        Ok(Upkeep::Done(done?))
    }
}
