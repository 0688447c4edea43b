//! Snapshots, baselines and segments: what bounds a restore, and what leaves the engine.
//!
//! They are written under a world's lease. The worker that holds it is asked by mail for a snapshot or an export, and does it while the
//! world continues; what it has done is read from the store, so that no answer can be lost. Where nobody holds the world, and for a
//! promotion, the lease is taken over.

use super::Ops;
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    shell::{Command, send_commands},
    take_over::{Looks, Work, take_over},
    world::{WorldHost, counts_for_tail},
};
use futures_util::{FutureExt, future::BoxFuture};
use mundi_engine::Engine;
use mundi_model::{Height, WorkerId, WorldId, limits, record::SnapshotNote};
use mundi_store::{
    blob::Blobs,
    journal::History,
    keyspace::snapshot,
    protocol::{
        CommitSnapshot, CountSegments, ExportPolicy, ExportState, ListSnapshots, NextExport, Page, Purpose, ReadExport,
        commit_snapshot,
    },
    segments::{Compacted, Compactor, CompactorConfig},
    snapshot::SnapshotError,
};

/// A holder that has not done it by then is asked again: what it was told may have been lost with its process.
const ASK_AGAIN_NS: u64 = 2_000_000_000;

/// The notes that a snapshot journals above itself, and the first record of a world: a longer tail is not read through.
const NOTES_MAX: u64 = 4;

/// How far what was asked of a holder has come.
enum Progress<T> {
    Done(T),
    /// It has begun, and stands here.
    At(Height),
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
    pub async fn take_snapshot(&self, world: WorldId) -> Result<Option<SnapshotNote>, RuntimeError> {
        let head = self.describe_world(world).await?.head.map_or(Height::GENESIS, |head| head.height);
        let look = || self.snapshot_since(world, head).boxed();
        let take: Work<P, _> =
            Box::new(|plane, fence| Box::pin(async move { WorldHost::restore(plane, fence).await?.snapshot().await }));
        self.upkeep(world, Command::Snapshot(world), look, take).await
    }

    /// A snapshot that covers all records below a height, or that there is nothing to take.
    async fn snapshot_since(
        &self,
        world: WorldId,
        head: Height,
    ) -> Result<Progress<Option<SnapshotNote>>, RuntimeError> {
        let mut tx = self.plane.engine().begin().await?;
        mundi_store::protocol::require_live(&mut tx, self.universe, world).await?;
        let newest = snapshot::newest_at(&mut tx, self.universe, world, Height::new(u64::MAX)).await?;
        drop(tx);
        let newest = newest.ok_or(SnapshotError::NotFound { world, height: head })?;
        if newest.height >= head {
            return Ok(Progress::Done(Some(newest)));
        }
        if head.since(newest.height) > NOTES_MAX {
            return Ok(Progress::At(newest.height));
        }
        let (engine, segments) = (self.plane.engine(), self.plane.segments().clone());
        let history = History::open(engine, segments, self.universe, world, newest.height).await?;
        for record in history.until(head).collect().await? {
            if counts_for_tail(world, &record)? {
                return Ok(Progress::At(newest.height));
            }
        }
        Ok(Progress::Done(None))
    }

    /// Moves what lies far enough below the baseline into segments, all of it. Says how many were written.
    pub async fn export_segments(&self, world: WorldId, policy: ExportPolicy) -> Result<u64, RuntimeError> {
        let universe = self.universe;
        let read = ReadExport { universe, world, policy };
        let above = self.plane.run(&read).await?.output.exported_to;
        let look = || self.export_since(read).boxed();
        let export: Work<P, _> = Box::new(move |plane, fence| {
            Box::pin(async move {
                let config = CompactorConfig { policy, ..CompactorConfig::default() };
                let compactor = Compactor::new(plane.segments().clone(), plane.clock().clone(), config);
                while let Compacted::Exported { .. } = compactor.turn(fence).await? {}
                Ok(())
            })
        });
        let ExportPolicy { margin, records_min, records_max } = policy;
        let command = Command::Export { world, margin, records_min, records_max };
        self.upkeep(world, command, look, export).await?;
        Ok(self.plane.run(&CountSegments { universe, world, above }).await?.output)
    }

    async fn export_since(&self, read: ReadExport) -> Result<Progress<()>, RuntimeError> {
        Ok(match self.plane.run(&read).await?.output {
            ExportState { next: NextExport::Idle, .. } => Progress::Done(()),
            ExportState { exported_to, .. } => Progress::At(exported_to),
        })
    }

    /// Makes a snapshot that a world has the one that restore starts from; it must be newer than the one that is.
    pub async fn promote_baseline(&self, world: WorldId, height: Height) -> Result<SnapshotNote, RuntimeError> {
        let universe = self.universe;
        let note = snapshot::read(&mut self.plane.engine().begin().await?, universe, world, height).await?;
        if note.is_none() {
            self.describe_world(world).await?;
        }
        let note = note.ok_or(SnapshotError::NotFound { world, height })?;
        let promote: Work<P, _> = Box::new(move |plane, fence| {
            Box::pin(async move {
                let bytes = plane.blobs().get(universe, note.snapshot).await?;
                let request = CommitSnapshot { fence, bytes, promote: true };
                let (engine, clock, blobs) = (plane.engine(), &**plane.clock(), plane.blobs());
                Ok(commit_snapshot(engine, clock, blobs, &KernelSnapshots, &request).await?.note)
            })
        });
        take_over(&self.plane, (universe, world), Purpose::Upkeep, promote).await
    }

    /// The worker that runs a world.
    async fn holder(&self, world: WorldId) -> Result<Option<WorkerId>, RuntimeError> {
        let lease = self.describe_world(world).await?.lease;
        Ok(lease.filter(|lease| lease.expires_at_ns > self.plane.now_ns()).map(|lease| lease.holder))
    }

    /// Asks the holder of a world for something until it is done; does it here once nobody holds the world.
    async fn upkeep<'o, T: Send + 'static>(
        &'o self,
        world: WorldId,
        command: Command,
        look: impl Fn() -> BoxFuture<'o, Result<Progress<T>, RuntimeError>>,
        work: Work<P, T>,
    ) -> Result<T, RuntimeError> {
        let (mut looks, mut seen, mut told) = (Looks::new(), None, None);
        let mut until_ns = 0;
        loop {
            let now_ns = self.plane.now_ns();
            match look().await? {
                Progress::Done(done) => return Ok(done),
                Progress::At(height) if seen.replace(height) != Some(height) => {
                    until_ns = now_ns.saturating_add(limits::TAKE_OVER_MS_MAX * 1_000_000);
                }
                Progress::At(_) => {}
            }
            let Some(holder) = self.holder(world).await? else {
                return take_over(&self.plane, (self.universe, world), Purpose::Upkeep, work).await;
            };
            if now_ns >= until_ns {
                let waited_ms = limits::TAKE_OVER_MS_MAX;
                return Err(RuntimeError::HolderSilent { world, holder, waited_ms });
            }
            let is_told = |(who, at_ns): (WorkerId, u64)| who == holder && now_ns.saturating_sub(at_ns) < ASK_AGAIN_NS;
            if !told.is_some_and(is_told) && self.workers().await?.contains_key(&holder) {
                send_commands(&self.plane, self.universe, holder, &[command]).await?;
                told = Some((holder, now_ns));
            }
            looks.pause(&self.plane).await;
        }
    }
}
