//! Worlds: their life cycle, and queries about them.

use super::{At, Ops};
use crate::{
    Plane, RuntimeError,
    lifecycle::{self, ForkAt, ForkPolicy, ForkWorld, Forked, NewWorld, past},
    objects::{AtHand, with_objects},
    world_name::world_name,
};
use bytes::Bytes;
use mundi_kernel::{Repair, Upgrade};
use mundi_model::{
    Hash, Height, InboxSeq, WorldAddress, WorldId, WorldName,
    answers::Answers,
    cbor, limits,
    record::{InboxItem, Input, Operator, Origin, Payload},
};
use mundi_store::{
    blob::Blobs,
    journal::{History, StoredRecord},
    keyspace::world_meta::{Hold, WorldMeta},
    protocol::{
        ArchiveWorld, DescribeWorld, ListWorlds, LogTail, NameWorld, Page, ReadLineage, ReadLogs, ReleaseHold,
        WorldCreated, WorldDescription, WorldFilter, WorldLineage, WorldSummary,
    },
    snapshot::SnapshotError,
};

/// The repair of the input at which a world was on hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repaired {
    /// The place of the command in the inbox.
    pub seq: InboxSeq,
    /// The input.
    pub input: InboxSeq,
}

impl<P: Plane> Ops<P> {
    /// The worlds of the universe, in pages.
    pub async fn list_worlds(
        &self,
        filter: WorldFilter,
        after: Option<WorldId>,
        items_max: usize,
    ) -> Result<Page<WorldSummary, WorldId>, RuntimeError> {
        Ok(self.plane.run(&ListWorlds { universe: self.universe, filter, after, items_max }).await?.output)
    }

    pub async fn describe_world(&self, world: WorldId) -> Result<WorldDescription, RuntimeError> {
        Ok(self.plane.run(&DescribeWorld { universe: self.universe, world }).await?.output)
    }

    /// Ancestors and children.
    pub async fn world_lineage(&self, world: WorldId, forks_max: usize) -> Result<WorldLineage, RuntimeError> {
        Ok(self.plane.run(&ReadLineage { universe: self.universe, world, forks_max }).await?.output)
    }

    /// Records of a world from a height on, with every link of the chain checked; those below a fork are its parent's.
    pub async fn world_journal(
        &self,
        world: WorldId,
        from: Height,
        items_max: usize,
    ) -> Result<Page<StoredRecord, Height>, RuntimeError> {
        let items_max = items_max.clamp(1, limits::LIST_ITEMS_MAX);
        let (engine, segments) = (self.plane.engine(), self.plane.segments().clone());
        let history = History::open(engine, segments, self.universe, world, from).await?;
        let head = history.head();
        let mut items = history.pages_of(items_max).next_page().await?.unwrap_or_default();
        items.truncate(items_max);
        let next = items.last().map(|record| record.height.next()).filter(|next| *next < head);
        Ok(Page { items, next })
    }

    /// All records from a height up to another one, wherever they lie: a page ends with a segment, or with an ancestor's journal.
    pub(super) async fn records_between(
        &self,
        world: WorldId,
        from: Height,
        until: Height,
    ) -> Result<Vec<StoredRecord>, RuntimeError> {
        let (engine, segments) = (self.plane.engine(), self.plane.segments().clone());
        let entries = usize::try_from(until.get().saturating_sub(from.get())).unwrap_or(usize::MAX);
        let history = History::open(engine, segments, self.universe, world, from).await?;
        Ok(history.until(until).pages_of(entries).collect().await?)
    }

    /// Asks a world's program about the world as it was at a height, or as it is. Needs no lease: the world is restored
    /// for the question from its nearest snapshot, wherever it runs. A query that fails again and again is refused for a while.
    pub async fn world_query(
        &self,
        world: WorldId,
        name: &str,
        params: &[u8],
        at: Option<Height>,
    ) -> Result<Vec<u8>, RuntimeError> {
        self.failing_queries.admit(world, name, self.plane.now_ns())?;
        let answer = self.query(world, name, params, at).await;
        if let Some(code) = self.failing_queries.note(world, name, &answer, self.plane.now_ns()) {
            let of = world_name(&self.plane, self.universe, world).await;
            tracing::warn!(%world, name = of, query = name, %code, "a query fails again and again, and is held back");
        }
        answer
    }

    async fn query(
        &self,
        world: WorldId,
        name: &str,
        params: &[u8],
        at: Option<Height>,
    ) -> Result<Vec<u8>, RuntimeError> {
        let place = (self.universe, world);
        let past::Past { mut replay, mut at_hand } = self.past(At { world, height: at }).await?;
        // A mutable borrow, because a replay may be sent to another thread and not shared with one.
        let replay = &mut replay;
        // A query is in no journal: if native code ends the process, this line says which query did.
        tracing::debug!(%world, query = name, "a query begins");
        let ask = move |objects: &AtHand| replay.world().query(objects, name, params);
        with_objects(&self.plane, place, &mut at_hand, ask).await
    }

    /// Creates a world. A name by which it is addressed is stored with it.
    pub async fn world_create(
        &self,
        world: impl Into<WorldAddress>,
        manifest: Hash,
        now_ns: u64,
    ) -> Result<WorldCreated, RuntimeError> {
        let (address, universe) = (world.into(), self.universe);
        let new = NewWorld { universe, world: address.world(universe), manifest, inbox: None, now_ns };
        lifecycle::create_named(&self.plane, new, address.name().cloned().into()).await
    }

    /// Stores the name of a world that is there already. Done twice, it is done once.
    pub async fn name_world(&self, name: WorldName) -> Result<(), RuntimeError> {
        self.plane.run(&NameWorld { universe: self.universe, name }).await?;
        Ok(())
    }

    /// Worlds of the universe may run this program from now on. For administrators of the universe.
    pub async fn register_program(&self, program: Hash) -> Result<(), RuntimeError> {
        lifecycle::register_program(&self.plane, self.universe, program).await
    }

    pub async fn is_program_registered(&self, program: Hash) -> Result<bool, RuntimeError> {
        lifecycle::is_program_registered(&self.plane, self.universe, program).await
    }

    /// Worlds of the universe may run on this manifest from now on, if its program may be run and its schemas do not expand
    /// without bound. For administrators of the universe.
    pub async fn register_manifest(&self, manifest: Hash) -> Result<(), RuntimeError> {
        lifecycle::register_manifest(&self.plane, self.universe, manifest).await
    }

    /// A new world that begins with a snapshot of another one, the newest if none is named, and repeats none of its effects. Asked
    /// again for the same one, it answers the same.
    pub async fn world_create_from_seed(
        &self,
        world: impl Into<WorldAddress>,
        seed: WorldId,
        height: Option<Height>,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        let at = self.seed_at(seed, height).await?;
        self.world_fork(seed, world, at, ForkPolicy::default(), now_ns).await
    }

    /// Where a world begins that begins with a snapshot of another one: the newest if no height is given.
    pub async fn seed_at(&self, seed: WorldId, height: Option<Height>) -> Result<ForkAt, RuntimeError> {
        let Some(height) = height else { return Ok(ForkAt::Newest) };
        let note = past::snapshot_below(&self.plane, (self.universe, seed), height).await?;
        if note.height != height {
            return Err(SnapshotError::NotFound { world: seed, height }.into());
        }
        Ok(ForkAt::Height(height))
    }

    pub async fn world_fork(
        &self,
        parent: WorldId,
        child: impl Into<WorldAddress>,
        at: ForkAt,
        policy: impl Into<ForkPolicy>,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        self.world_fork_on(None, parent, child, at, policy, now_ns).await
    }

    /// The same, on another manifest: the branch runs other code from its first input on.
    pub async fn world_fork_on(
        &self,
        manifest: Option<Hash>,
        parent: WorldId,
        child: impl Into<WorldAddress>,
        at: ForkAt,
        policy: impl Into<ForkPolicy>,
        now_ns: u64,
    ) -> Result<Forked, RuntimeError> {
        let (policy, address, universe) = (policy.into(), child.into(), self.universe);
        let child = address.world(universe);
        let request = ForkWorld { universe, parent, child, at, policy, manifest, now_ns };
        lifecycle::fork_named(&self.plane, request, address.name().cloned().into(), None).await
    }

    /// Stores the scripted answers of a sandbox that is to be made.
    pub async fn store_answers(&self, answers: &Answers) -> Result<Hash, RuntimeError> {
        Ok(self.plane.blobs().put(self.universe, Bytes::from(answers.to_bytes()), &[]).await?)
    }

    /// From the next control on, the world takes nothing but commands.
    pub async fn world_pause(&self, world: WorldId) -> Result<InboxSeq, RuntimeError> {
        self.control(world, "pause", Vec::new()).await
    }

    /// The same; who asked for it is journaled.
    pub async fn world_pause_by(&self, world: WorldId, operator: &Operator) -> Result<InboxSeq, RuntimeError> {
        self.control(world, "pause", cbor::encode(operator)).await
    }

    /// The world continues: after a pause, and after a hold, which may come back if its cause is not gone.
    pub async fn world_resume(&self, world: WorldId) -> Result<InboxSeq, RuntimeError> {
        let seq = self.control(world, "resume", Vec::new()).await?;
        if let Some(hold) = self.release_hold(world).await? {
            let name = self.names_of_worlds([world].into()).await?.remove(&world);
            tracing::info!(%world, name, code = hold.code, "a world was released");
        }
        Ok(seq)
    }

    /// From the record after the command on, another manifest holds, if its program handles the take-over. One that would
    /// treat open work differently is refused, unless the caller insists, and then that is journaled.
    pub async fn world_upgrade(&self, world: WorldId, manifest: Hash, forced: bool) -> Result<InboxSeq, RuntimeError> {
        lifecycle::require_registered(&self.plane, self.universe, manifest).await?;
        self.check_manifest(manifest).await?;
        self.check_runs_pools(world, manifest).await?;
        if !forced && let Some(refusal) = self.rehearse_open_work(world, manifest).await?.refusal(world) {
            return Err(refusal);
        }
        let seq = self.control(world, "upgrade", cbor::encode(&Upgrade { manifest, forced })).await?;
        match self.describe_world(world).await?.meta.hold {
            // It takes the command and stands at the failed input still, until someone retries or skips that.
            Some(hold) if hold.failed_input.is_some() => drop(self.release_hold(world).await?),
            // It is paused when it takes the command ahead of what it failed at.
            Some(_) => drop(self.world_resume(world).await?),
            None => {}
        }
        Ok(seq)
    }

    /// The world takes the input again that it is on hold at. The reply to a call is waited for under its name again.
    pub async fn world_retry(&self, world: WorldId, operator: Operator) -> Result<Repaired, RuntimeError> {
        self.repair(world, "retry", operator).await
    }

    /// The input that the world is on hold at passes without a step; its caller gets `STEP_SKIPPED`.
    pub async fn world_skip(&self, world: WorldId, operator: Operator) -> Result<Repaired, RuntimeError> {
        self.repair(world, "skip", operator).await
    }

    async fn repair(&self, world: WorldId, command: &str, operator: Operator) -> Result<Repaired, RuntimeError> {
        let WorldMeta { hold, name, .. } = self.describe_world(world).await?.meta;
        let input = hold.and_then(|hold| hold.seq).ok_or(RuntimeError::NotOnHold(world))?;
        let repair = Repair { seq: input, operator };
        let seq = self.control(world, command, cbor::encode(&repair)).await?;
        self.release_hold(world).await?;
        tracing::info!(%world, name, command, %input, by = repair.operator.name, "a world was released from hold");
        Ok(Repaired { seq, input })
    }

    /// The last lines that the program of a world logged.
    pub async fn world_logs(&self, world: WorldId) -> Result<LogTail, RuntimeError> {
        Ok(self.plane.run(&ReadLogs { universe: self.universe, world }).await?.output)
    }

    /// A worker may run the world again; it was on hold because its turns failed. Says why, if it was.
    async fn release_hold(&self, world: WorldId) -> Result<Option<Hold>, RuntimeError> {
        let released =
            self.plane.run(&ReleaseHold { universe: self.universe, world, now_ns: self.plane.now_ns() }).await?;
        self.wake(world);
        Ok(released.output)
    }

    /// Tells the worker of this process that a world can be had again, which it could not a moment ago.
    fn wake(&self, world: WorldId) {
        if let Some(worker) = &self.worker {
            worker.wake(world);
        }
    }

    async fn control(&self, world: WorldId, command: &str, payload: Vec<u8>) -> Result<InboxSeq, RuntimeError> {
        let input = Input::Control { command: command.to_owned(), payload: Payload::Inline(payload) };
        let enqueued_at_ns = self.plane.now_ns();
        let origin = Origin::new(enqueued_at_ns);
        Ok(self.enqueue_ingress(world, InboxItem { input, origin }, None).await?.seq)
    }

    /// Refused for the world of a pool that has live leases.
    pub async fn world_archive(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.taken_out(world, self.set_archived(world, true)).await?;
        // An executor does the same if this process ends here.
        self.children_cancel(world, &format!("archived:{world}")).await.map(drop)
    }

    pub async fn world_unarchive(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.set_archived(world, false).await?;
        match self.pool_of_world(world).await? {
            Some(_) => self.open_shard(world).await,
            None => Ok(()),
        }
    }

    async fn set_archived(&self, world: WorldId, archived: bool) -> Result<(), RuntimeError> {
        let now_ns = self.plane.now_ns();
        self.plane.run(&ArchiveWorld { universe: self.universe, world, archived, now_ns }).await?;
        if !archived {
            self.wake(world);
        }
        Ok(())
    }

    /// Deletes a world, whichever worker runs it. Refused for the world of a pool that has live leases.
    pub async fn world_delete(&self, world: WorldId) -> Result<(), RuntimeError> {
        self.taken_out(world, lifecycle::delete(&self.plane, self.universe, world)).await
    }
}
