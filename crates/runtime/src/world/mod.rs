//! One world in memory, under one fence.
//!
//! The journal is the truth and the memory a cache of it: whatever goes wrong between the two, the memory is
//! dropped and restored. After any error but a refused query a host is not used again.

mod commit;
mod execute;
mod failures;
mod logs;
mod pending;
mod pool_results;
mod restore;
mod snapshot;
mod turn;

pub(crate) use pool_results::is_pool;
pub(crate) use restore::counts_for_tail;
pub use snapshot::SnapshotPolicy;
pub use turn::{CycleBudget, Cycled, Progress, Waited};

use crate::{
    Plane, RuntimeError,
    delivery::local::LocalItem,
    effects::{
        recording::{KeptRecordings, Recording, decode},
        slots::RegisteredSlots,
    },
    metrics::Metrics,
    objects::{AtHand, with_objects},
};
use mundi_kernel::{HeldAt, World, manifest::CompiledManifest};
use mundi_model::{
    Hash, Height, UniverseId, WorldId,
    record::{Body, Held},
};
use mundi_store::{
    Fence,
    journal::History,
    keyspace::{notify::Seen, world_log::LogPage},
    protocol::{InboxEnd, NoteSnapshotDue},
};
use std::{collections::VecDeque, sync::Arc};

/// The memory of a world before it has done anything: an estimate, for the budget of residents.
const RESIDENT_BYTES_MIN: usize = 16 * 1024;

/// A world that this worker holds.
pub struct WorldHost<P: Plane> {
    plane: P,
    fence: Fence,
    /// The world's name, for its log lines and spans.
    name: Option<Box<str>>,
    world: World,
    at_hand: AtHand,
    /// The records of its parent, in a fork that the parent's receipts answer.
    recording: Option<Recording<P>>,
    tail: Tail,
    /// Items that wait in memory for the next turn.
    local: VecDeque<LocalItem>,
    /// That the last turn has left nothing in the inbox.
    drained: Option<InboxEnd>,
    /// Where its effects may start in this process.
    slots: RegisteredSlots,
    /// Where the times of items are counted, if anywhere.
    metrics: Option<Arc<Metrics>>,
    /// When its next snapshot is due, as it was last put on record; `None` if this host has not done so.
    due_on_record: Option<Option<u64>>,
    /// Why its turns failed before it was restored: commands that wait are taken first.
    failed: Option<Held>,
    /// The newest page of its log, once it has logged something.
    log_page: Option<LogPage>,
    /// The inbox when there was last nothing in it that the world could take.
    idle_at: Option<Seen>,
    /// Worlds whose calls it has answered, and which may not know yet.
    callers: Vec<(UniverseId, WorldId)>,
}

/// The records above the newest snapshot, which a restore would have to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// Without the notes about snapshots themselves.
    pub records: u64,
    pub bytes: u64,
    /// When the first of them was written: what its record says, also after a restore.
    pub since_ns: Option<u64>,
}

impl Tail {
    fn grow(&mut self, records: u64, bytes: u64, now_ns: u64) {
        self.records += records;
        self.bytes += bytes;
        self.since_ns.get_or_insert(now_ns);
    }
}

impl<P: Plane> WorldHost<P> {
    pub fn fence(&self) -> Fence {
        self.fence
    }

    pub fn id(&self) -> WorldId {
        self.fence.world
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The next height.
    pub fn head(&self) -> Height {
        self.world.head()
    }

    /// The hash of the last record.
    pub fn chain(&self) -> Hash {
        self.world.chain()
    }

    pub fn is_paused(&self) -> bool {
        self.world.is_paused()
    }

    /// Whether it stopped because a step failed.
    pub(crate) fn is_held(&self) -> bool {
        self.world.held().is_some()
    }

    /// Where it stopped because a step failed: the failure, the height of its record, and the inbox in which nothing was found that would
    /// let it continue.
    ///
    /// A mutable borrow, because a world may be sent to another thread and not shared with one.
    pub(crate) async fn held(&mut self) -> Result<Option<(Held, Height, Option<Seen>)>, RuntimeError> {
        let Some(HeldAt { height, .. }) = self.world.held() else { return Ok(None) };
        let Fence { universe, world, .. } = self.fence;
        let history =
            History::open(self.plane.engine(), self.plane.segments().clone(), universe, world, height).await?;
        let page = history.until(height.next()).pages_of(1).next_page().await?.unwrap_or_default();
        match page.first().map(|record| decode(world, record)).transpose()? {
            Some(Body::Held(held)) => Ok(Some((held, height, self.idle_at.clone()))),
            _ => Err(RuntimeError::MemoryStale { world, journal: height, memory: self.head() }),
        }
    }

    /// Its next turn takes these items, behind all that waits in the inbox then.
    pub(crate) fn admit(&mut self, items: Vec<LocalItem>) {
        self.local.extend(items);
    }

    /// The worlds that have got the receipt of a call since this was asked last.
    pub(crate) fn take_callers(&mut self) -> Vec<(UniverseId, WorldId)> {
        std::mem::take(&mut self.callers)
    }

    /// Its effects go to these slots while one is free.
    pub(crate) fn register_slots(&mut self, slots: RegisteredSlots) {
        self.slots = slots;
    }

    /// Goes on with what this worker had read of its parent when it released the world.
    pub(crate) fn take_up_recording(&mut self, kept: &KeptRecordings<P>) {
        self.recording = self.world.recording().and_then(|of| kept.take(self.fence.world, of));
    }

    /// Leaves what was read of its parent to the worker's next host of this world.
    pub(crate) fn leave_recording(&mut self, kept: &KeptRecordings<P>) {
        if let (Some(recording), Some(of)) = (self.recording.take(), self.world.recording()) {
            kept.keep(recording, of);
        }
    }

    /// Counts how long items take from the inbox to the journal.
    pub(crate) fn measure(&mut self, metrics: Arc<Metrics>) {
        self.metrics = Some(metrics);
    }

    /// Its turns failed for this reason: the commands that wait in its inbox are taken first.
    pub(crate) fn take_commands_first(&mut self, failed: Held) {
        self.failed = Some(failed);
    }

    pub(crate) fn manifest(&self) -> &Arc<CompiledManifest> {
        self.world.manifest()
    }

    /// Journals when its next snapshot is due by age, so that it is taken also if the world has no work until then.
    pub(crate) async fn note_snapshot_due(&mut self, policy: &SnapshotPolicy) -> Result<(), RuntimeError> {
        let due_ns = policy.due_ns(self.tail);
        if self.due_on_record != Some(due_ns) {
            self.plane.run(&NoteSnapshotDue { fence: self.fence, due_ns }).await?;
            self.due_on_record = Some(due_ns);
        }
        Ok(())
    }

    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// About what it costs to keep it in memory.
    pub fn resident_bytes(&self) -> usize {
        let tail = usize::try_from(self.tail.bytes).unwrap_or(usize::MAX);
        tail.saturating_add(self.at_hand.bytes()).saturating_add(RESIDENT_BYTES_MIN)
    }

    /// Asks the program, which cannot change anything. A refusal leaves the host as it was.
    pub async fn query(&mut self, name: &str, params: &[u8]) -> Result<Vec<u8>, RuntimeError> {
        // A mutable borrow, because a world may be sent to another thread and not shared with one.
        let (address, world) = (self.address(), &mut self.world);
        let ask = move |objects: &AtHand| world.query(objects, name, params);
        with_objects(&self.plane, address, &mut self.at_hand, ask).await
    }

    /// The value of a cell, past the program: for tools and tests.
    pub async fn cell(&mut self, key: &str) -> Result<Option<Vec<u8>>, RuntimeError> {
        let (address, world) = (self.address(), &mut self.world);
        let ask = move |objects: &AtHand| world.cell(objects, key);
        with_objects(&self.plane, address, &mut self.at_hand, ask).await
    }

    fn address(&self) -> (UniverseId, WorldId) {
        (self.fence.universe, self.fence.world)
    }
}
