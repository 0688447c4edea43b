//! The internal control surface: every call of seed 000, section 9, and what operators need beside it.
//!
//! All calls are idempotent and return typed errors; the server puts HTTP on it.

use crate::{
    Plane, RuntimeError,
    calls::Calls,
    lifecycle::{self, ForkAt, ForkWorld, Forked, NewWorld},
    shell::{Command, command_frame},
};
use mundi_model::{
    Epoch, Hash, Height, InboxSeq, UniverseId, WorkerId, WorldId,
    record::{EffectPolicy, InboxItem, Input, Origin, Payload, ReplyOutcome},
};
use mundi_store::{
    Fence, StoreError,
    keyspace::{assignment::Assignment, inbox_dedupe::DedupeId, worker::WorkerRecord},
    protocol::{
        AcquireLease, ArchiveWorld, Enqueued, ListWorkerWorlds, ListWorkers, NewItem, Over, PlaceWorld, ReadLineage,
        ReleaseLease, RenewLeases, WorldCreated, WorldLineage, enqueue,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// How long an idempotency key is remembered.
const DEDUPE_WINDOW_NS: u64 = 3_600_000_000_000;

/// Control over one universe. Cheap to clone if the plane is.
#[derive(Clone)]
pub struct Ops<P> {
    plane: P,
    universe: UniverseId,
    calls: Calls,
}

impl<P: Plane> Ops<P> {
    /// `calls` is shared with the world workers of this process, if there are any.
    pub fn new(plane: P, universe: UniverseId, calls: Calls) -> Self {
        Self { plane, universe, calls }
    }

    /// Pins a world to a worker, and tells both the old one and the new one.
    pub async fn assign_world(&self, world: WorldId, worker: WorkerId, priority: u8) -> Result<(), RuntimeError> {
        let to = Assignment { desired: Some(worker), pinned: true, priority, reason: Some("operator".to_owned()) };
        self.place(world, to, Some((worker, Command::Assign(world)))).await
    }

    /// Lets any worker run a world.
    pub async fn unassign_world(&self, world: WorldId) -> Result<(), RuntimeError> {
        let priority = mundi_store::keyspace::ready::PRIORITY_NORMAL;
        let to = Assignment { desired: None, pinned: false, priority, reason: Some("operator".to_owned()) };
        self.place(world, to, None).await
    }

    async fn place(
        &self,
        world: WorldId,
        to: Assignment,
        word: Option<(WorkerId, Command)>,
    ) -> Result<(), RuntimeError> {
        let mut mail: Vec<_> = word
            .and_then(|(worker, command)| Some((worker, command_frame(&self.plane, worker, command)?)))
            .into_iter()
            .collect();
        // Whoever is not the desired one is told to give it back; to those who do not have it, it means nothing.
        for worker in self.workers().await?.into_keys().filter(|worker| Some(*worker) != to.desired) {
            let revoke = command_frame(&self.plane, worker, Command::Revoke(world));
            mail.extend(revoke.filter(|_| to.desired.is_some()).map(|frame| (worker, frame)));
        }
        let place = PlaceWorld { universe: self.universe, world, over: Over::Anything, to, mail };
        self.plane.run(&place).await?;
        Ok(())
    }

    pub async fn acquire_lease(&self, world: WorldId, worker: WorkerId, ttl: Duration) -> Result<Fence, RuntimeError> {
        let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let acquire = AcquireLease { universe: self.universe, world, worker, now_ns: self.plane.now_ns(), ttl_ns };
        Ok(self.plane.run(&acquire).await?.output)
    }

    /// Refuses with `LEASE_FENCED` when the lease is not held under this epoch any more.
    pub async fn renew_lease(
        &self,
        world: WorldId,
        worker: WorkerId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<(), RuntimeError> {
        let fence = Fence { universe: self.universe, world, epoch };
        let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let renew = RenewLeases { worker, fences: vec![fence], now_ns: self.plane.now_ns(), ttl_ns };
        if self.plane.run(&renew).await?.output.lost.is_empty() {
            return Ok(());
        }
        Err(StoreError::from(mundi_store::Fenced { fence, current: None }).into())
    }

    pub async fn release_lease(&self, world: WorldId, epoch: Epoch) -> Result<(), RuntimeError> {
        let fence = Fence { universe: self.universe, world, epoch };
        self.plane.run(&ReleaseLease { fence }).await?;
        Ok(())
    }

    /// Puts an item into a world's inbox; under the same key at most once.
    pub async fn enqueue_ingress(
        &self,
        world: WorldId,
        item: InboxItem,
        idempotency_key: Option<&str>,
    ) -> Result<Enqueued, RuntimeError> {
        let new = NewItem { item, dedupe: idempotency_key.map(DedupeId::idempotency_key) };
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        let placed = enqueue(engine, clock, blobs, self.universe, world, vec![new], DEDUPE_WINDOW_NS).await?;
        placed.into_iter().next().ok_or_else(|| {
            let (items, max) = (0, mundi_model::limits::INBOX_BATCH_ITEMS_MAX);
            mundi_store::protocol::InboxError::BatchInvalid { items, max }.into()
        })
    }

    /// Sends an event and waits for the reply. On a timeout, [`Self::reply`] finds it under the place in the error.
    pub async fn call(
        &self,
        world: WorldId,
        mut item: InboxItem,
        idempotency_key: Option<&str>,
        timeout: Duration,
    ) -> Result<ReplyOutcome, RuntimeError> {
        item.origin.wants_reply = true;
        let placed = self.enqueue_ingress(world, item, idempotency_key).await?;
        self.reply(world, placed.seq, timeout).await
    }

    /// The reply to a call that was made before.
    pub async fn reply(&self, world: WorldId, call: InboxSeq, timeout: Duration) -> Result<ReplyOutcome, RuntimeError> {
        self.calls.reply(&self.plane, self.universe, world, call, timeout).await
    }

    pub async fn workers(&self) -> Result<BTreeMap<WorkerId, WorkerRecord>, RuntimeError> {
        Ok(self.plane.run(&ListWorkers { universe: self.universe }).await?.output)
    }

    /// The worlds that a worker should run, in pages.
    pub async fn list_worker_worlds(
        &self,
        worker: WorkerId,
        after: Option<WorldId>,
        items_max: usize,
    ) -> Result<Vec<WorldId>, RuntimeError> {
        let list = ListWorkerWorlds { universe: self.universe, worker, after, items_max };
        Ok(self.plane.run(&list).await?.output)
    }

    pub async fn world_create(
        &self,
        world: WorldId,
        manifest: Hash,
        now_ns: u64,
    ) -> Result<WorldCreated, RuntimeError> {
        lifecycle::create(&self.plane, NewWorld { universe: self.universe, world, manifest, inbox: None, now_ns }).await
    }

    /// A new world that begins with another one's snapshot and repeats none of its effects.
    pub async fn world_create_from_seed(
        &self,
        world: WorldId,
        seed: WorldId,
        snapshot: Height,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        self.world_fork(seed, world, ForkAt::Height(snapshot), EffectPolicy::Suppress, now_ns).await
    }

    pub async fn world_fork(
        &self,
        parent: WorldId,
        child: WorldId,
        at: ForkAt,
        policy: EffectPolicy,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        lifecycle::fork(&self.plane, ForkWorld { universe: self.universe, parent, child, at, policy, now_ns }).await
    }

    /// From the next control on, the world takes nothing but commands.
    pub async fn world_pause(&self, world: WorldId) -> Result<InboxSeq, RuntimeError> {
        self.control(world, "pause").await
    }

    pub async fn world_resume(&self, world: WorldId) -> Result<InboxSeq, RuntimeError> {
        self.control(world, "resume").await
    }

    async fn control(&self, world: WorldId, command: &str) -> Result<InboxSeq, RuntimeError> {
        let input = Input::Control { command: command.to_owned(), payload: Payload::Inline(Vec::new()) };
        let enqueued_at_ns = self.plane.now_ns();
        let origin = Origin { enqueued_at_ns, correlation_id: None, trace: None, wants_reply: false, sender: None };
        Ok(self.enqueue_ingress(world, InboxItem { input, origin }, None).await?.seq)
    }

    pub async fn world_archive(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.set_archived(world, true).await
    }

    pub async fn world_unarchive(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.set_archived(world, false).await
    }

    async fn set_archived(&self, world: WorldId, archived: bool) -> Result<(), RuntimeError> {
        self.plane.run(&ArchiveWorld { universe: self.universe, world, archived }).await?;
        Ok(())
    }

    /// Deletes a world that nobody runs, in the name of this worker.
    pub async fn world_delete(&self, world: WorldId, worker: WorkerId) -> Result<(), RuntimeError> {
        lifecycle::delete(&self.plane, self.universe, world, worker).await
    }

    /// Ancestors and children.
    pub async fn world_lineage(&self, world: WorldId, children_max: usize) -> Result<WorldLineage, RuntimeError> {
        Ok(self.plane.run(&ReadLineage { universe: self.universe, world, children_max }).await?.output)
    }
}
