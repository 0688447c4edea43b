//! Fork a world, from a snapshot or from any height, while it runs (seed 000, section 7).
//!
//! Without a snapshot at the height, the nearest one below it is restored and the records between are replayed. The
//! parent is only read: no fence is needed, and its journal does not change.

use super::{past, require_registered};
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    objects::{AtHand, with_objects},
    recording,
    snapshots::store_cells,
    terms::effect_terms,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_kernel::{
    LoadError, Upgrade,
    fork::{Fork, ForkRequest, fork_in},
    manifest::CompiledManifest,
    snapshot::KernelSnapshot,
};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorldId, cbor,
    mutants::{Mutant, planted},
    record::{Body, EffectPolicy, ForkGenesis, InboxItem, Input, Origin, Payload, Record, SnapshotNote},
};
use mundi_store::{
    StoreError,
    blob::Blobs,
    journal::History,
    keyspace::{effect_pending::EffectItem, timer_due::TimerItem, world_meta::WorldState},
    protocol::{CreateWorld, DescribeWorld, WorldCreated, WorldError, create_world},
};

/// Where a branch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkAt {
    /// At the newest snapshot.
    Newest,
    /// At this height: it shares all records below it.
    Height(Height),
    /// At the head: it begins as the parent is now.
    Head,
}

/// A branch that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct ForkWorld {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: WorldId,
    pub at: ForkAt,
    pub policy: EffectPolicy,
    /// Runs on this manifest instead of its parent's, by an upgrade that is its first input.
    pub manifest: Option<Hash>,
    pub now_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked {
    pub created: WorldCreated,
    pub forked_at: Height,
    pub parent_snapshot: Hash,
}

/// Forks a world, once: asked again for the same child with the same parent, policy and height, it answers the branch that is there,
/// however far the parent has gone since. Anything else under that id is refused with `WORLD_EXISTS`.
pub async fn fork<P: Plane>(plane: &P, request: ForkWorld) -> Result<Forked, RuntimeError> {
    let ForkWorld { universe, parent, child, policy, manifest, now_ns, .. } = request;
    if let Some(before) = made_before(plane, &request).await? {
        return Ok(before);
    }
    let (note, height) = nearest(plane, &request).await?;
    let bytes = match note.height == height {
        true => plane.blobs().get(universe, note.snapshot).await?,
        false => replayed(plane, &request, &note, height).await?,
    };
    let snapshot = KernelSnapshot::from_bytes(&bytes)?;
    let mut fork = fork_in(&snapshot, universe, ForkRequest { child, policy, now_ns })?;
    require_registered(plane, universe, fork.note.manifest).await?;
    if let Some(manifest) = manifest {
        require_registered(plane, universe, manifest).await?;
    }
    let parent_snapshot = fork.genesis.parent_snapshot;
    let effects = match if planted(Mutant::ForkRepeats) { EffectPolicy::Live } else { policy } {
        EffectPolicy::Live => inherited_effects(plane, universe, &fork, now_ns).await?,
        EffectPolicy::Suppress | EffectPolicy::Recorded => Vec::new(),
    };
    let receipts = recording::answer_open(plane, (universe, parent), height, &fork.publish).await?;
    fork.genesis.manifest = manifest;
    let first = Record { height, prev: fork.note.chain, body: Body::ForkGenesis(fork.genesis.clone()) };
    let request = CreateWorld {
        universe,
        world: child,
        first,
        snapshot: Bytes::from_owner(fork.bytes.clone()),
        inbox: None,
        effects,
        timers: inherited_timers(&fork, now_ns),
        receipts,
        command: manifest.map(|manifest| upgrade(manifest, now_ns)),
        now_ns,
    };
    let created = create_world(plane.engine(), &**plane.clock(), plane.blobs(), &KernelSnapshots, request).await?;
    tracing::info!(%parent, %child, %height, ?policy, "a world was forked");
    Ok(Forked { created, forked_at: height, parent_snapshot })
}

/// The command with which a branch begins that runs other code. It is forced: a branch is made to go another way.
fn upgrade(manifest: Hash, now_ns: u64) -> InboxItem {
    let payload = Payload::Inline(cbor::encode(&Upgrade { manifest, forced: true }));
    InboxItem { input: Input::Control { command: "upgrade".to_owned(), payload }, origin: Origin::new(now_ns) }
}

/// The branch that is asked for, if it is there already.
async fn made_before<P: Plane>(plane: &P, request: &ForkWorld) -> Result<Option<Forked>, RuntimeError> {
    let ForkWorld { universe, parent, child, at, policy, manifest, .. } = *request;
    let meta = match plane.run(&DescribeWorld { universe, world: child }).await {
        Ok(done) => done.output.meta,
        Err(StoreError::World(WorldError::NotFound { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if matches!(meta.state, WorldState::Deleting | WorldState::Deleted) {
        return Err(WorldError::Deleted(child).into());
    }
    let (engine, segments) = (plane.engine(), plane.segments().clone());
    let first =
        History::open(engine, segments, universe, child, meta.first_height).await?.pages_of(1).next_page().await?;
    let first = first.and_then(|page| page.into_iter().next()).and_then(|record| record.decode().ok());
    match first.map(|record| record.body) {
        Some(Body::ForkGenesis(genesis))
            if genesis.parent == parent
                && (genesis.policy, genesis.manifest) == (policy, manifest)
                && !matches!(at, ForkAt::Height(height) if height != genesis.forked_at) =>
        {
            let ForkGenesis { forked_at, parent_snapshot, .. } = genesis;
            Ok(Some(Forked { created: WorldCreated::Before, forked_at, parent_snapshot }))
        }
        _ => Err(WorldError::Exists(child).into()),
    }
}

/// The snapshot to start from, and the height to reach.
async fn nearest<P: Plane>(plane: &P, request: &ForkWorld) -> Result<(SnapshotNote, Height), RuntimeError> {
    let ForkWorld { universe, parent, at, .. } = *request;
    let at = match at {
        ForkAt::Head => {
            let head = plane.run(&DescribeWorld { universe, world: parent }).await?.output.head;
            head.map_or(ForkAt::Newest, |head| ForkAt::Height(head.height))
        }
        at => at,
    };
    let upto = match at {
        ForkAt::Newest | ForkAt::Head => Height::new(u64::MAX),
        ForkAt::Height(height) => height,
    };
    let mut tx = plane.engine().begin().await?;
    let first_height = mundi_store::protocol::require_live(&mut tx, universe, parent).await?.first_height;
    drop(tx);
    let note = past::snapshot_below(plane, (universe, parent), upto).await?;
    // Without its parent's first record a branch could not be replayed: nothing would say what it is a branch of.
    Ok(match at {
        ForkAt::Newest | ForkAt::Head => (note.clone(), note.height.max(first_height.next())),
        ForkAt::Height(height) if height <= first_height => {
            return Err(outside(plane, request, height).await?);
        }
        ForkAt::Height(height) => (note, height),
    })
}

/// Refuses a height at which no branch can begin, and says at which one can.
async fn outside<P: Plane>(plane: &P, request: &ForkWorld, height: Height) -> Result<RuntimeError, RuntimeError> {
    let ForkWorld { universe, parent, .. } = *request;
    let found = plane.run(&DescribeWorld { universe, world: parent }).await?.output;
    let first = found.meta.first_height.next();
    let head = found.head.map_or(first, |head| head.height);
    Ok(RuntimeError::ForkOutside { world: parent, height, first, head })
}

/// The snapshot at a height that has none, made from the one below and the records between; its objects are stored.
async fn replayed<P: Plane>(
    plane: &P,
    request: &ForkWorld,
    note: &SnapshotNote,
    height: Height,
) -> Result<Bytes, RuntimeError> {
    let ForkWorld { universe, parent, .. } = *request;
    let place = (universe, parent);
    let (mut world, mut at_hand) = match past::replay_to(plane, place, note, Some(height)).await {
        Err(error) if error.code() == Code::HeightOutOfRange => return Err(outside(plane, request, height).await?),
        past => past?.world(parent)?,
    };
    let take = |objects: &AtHand| -> Result<_, LoadError> { world.snapshot(objects) };
    let taken = with_objects(plane, place, &mut at_hand, take).await?;
    let own = taken.note.snapshot;
    store_cells(plane, universe, taken.objects.iter().filter(|(hash, _)| *hash != own).cloned().collect()).await?;
    Ok(Bytes::from_owner(taken.bytes))
}

/// What a live branch goes on waiting for, and repeats.
pub(crate) async fn inherited_effects<P: Plane>(
    plane: &P,
    universe: UniverseId,
    fork: &Fork,
    now_ns: u64,
) -> Result<Vec<EffectItem>, RuntimeError> {
    let load = |objects: &AtHand| plane.registry().manifest(objects, fork.note.manifest);
    let manifest = with_objects(plane, (universe, fork.genesis.parent), &mut AtHand::default(), load).await?;
    Ok(effects(fork, &manifest, now_ns))
}

fn effects(fork: &Fork, manifest: &CompiledManifest, now_ns: u64) -> Vec<EffectItem> {
    let item = |publish: &mundi_kernel::turn::Publish| EffectItem {
        world: fork.genesis.world,
        intent: publish.intent.hash,
        height: publish.intent.place.height,
        kind: publish.intent.kind.clone(),
        params: publish.intent.params.clone(),
        label: publish.intent.label.clone(),
        policy_context: Some(publish.manifest),
        published_at_ns: now_ns,
        trace: None,
        correlation_id: None,
        call: None,
        terms: effect_terms(&manifest.manifest.effect_policies(&publish.intent.kind)),
    };
    fork.publish.iter().map(item).collect()
}

/// The timers that run on in every branch.
pub(crate) fn inherited_timers(fork: &Fork, now_ns: u64) -> Vec<TimerItem> {
    let item = |timer: &mundi_kernel::turn::PublishTimer| TimerItem {
        world: fork.genesis.world,
        intent: timer.timer,
        height: fork.genesis.forked_at,
        deliver_at_ns: timer.set.due_ns,
        payload: timer.set.payload.clone(),
        published_at_ns: now_ns,
        trace: None,
        correlation_id: None,
        call: None,
    };
    fork.timers.iter().map(item).collect()
}
