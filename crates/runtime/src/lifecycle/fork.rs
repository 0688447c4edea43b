//! Fork a world, from a snapshot or from any height, while it runs.
//!
//! Without a snapshot at the height, the nearest one below it is restored and the records between are replayed. The
//! parent is only read: no fence is needed, and its journal does not change.

use super::{Naming, past, require_registered};
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    effects::dispatch,
    objects::{AtHand, with_objects},
    snapshots::store_cells,
    world_name::world_name,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_kernel::{
    Confined, LoadError, Upgrade,
    fork::{Fork, ForkRequest, fork_in},
    snapshot::KernelSnapshot,
};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorldId, cbor,
    record::{Body, EffectPolicy, ForkGenesis, InboxItem, Input, Origin, Payload, Record, SnapshotNote},
};
use mundi_store::{
    Fence, StoreError,
    blob::Blobs,
    journal::History,
    keyspace::world_meta::WorldState,
    protocol::{CreateWorld, DescribeWorld, Inherit, WorldCreated, WorldError, create_world, inherit_all},
};
use std::collections::BTreeMap;

/// The inbox that commands about instances of durable functions go to.
pub const FUNCTIONS_INBOX: &str = "$fn";

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
    pub policy: ForkPolicy,
    /// Runs on this manifest instead of its parent's, by an upgrade that is its first input.
    pub manifest: Option<Hash>,
    pub now_ns: u64,
}

/// The first inputs of a branch.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// Runs on this manifest instead of its parent's, by an upgrade that is its first input.
    pub manifest: Option<Hash>,
    /// The payload of a message to durable functions that it gets before anything else: another result for an await.
    pub told: Option<Vec<u8>>,
}

/// The policy for a branch's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForkPolicy {
    /// `None` is the safe choice: what keeps the parent's effects inside keeps the branch's inside, too; any other branch cancels
    /// what was open.
    pub effects: Option<EffectPolicy>,
    /// The object with the scripted answers of a sandbox; those of the parent, if it is one and nothing is said.
    pub answers: Option<Hash>,
}

impl From<EffectPolicy> for ForkPolicy {
    fn from(policy: EffectPolicy) -> Self {
        Self { effects: Some(policy), answers: None }
    }
}

impl ForkPolicy {
    /// The policy that was meant, of this parent.
    fn of(self, parent: &KernelSnapshot) -> (EffectPolicy, Option<Hash>) {
        let inherited = match parent.confined() {
            None => EffectPolicy::Suppress,
            Some(Confined::Recorded) => EffectPolicy::Recorded,
            Some(Confined::Sandbox { .. }) => EffectPolicy::Sandbox,
        };
        let policy = self.effects.unwrap_or(inherited);
        let scripted = match parent.confined() {
            Some(Confined::Sandbox { answers }) if policy == EffectPolicy::Sandbox => answers,
            _ => None,
        };
        (policy, self.answers.or(scripted))
    }

    /// Whether a branch that is there was asked for by this.
    fn made(self, genesis: &ForkGenesis) -> bool {
        self.effects.is_none_or(|policy| policy == genesis.policy)
            && self.answers.is_none_or(|answers| Some(answers) == genesis.answers)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked {
    pub created: WorldCreated,
    pub forked_at: Height,
    pub parent_snapshot: Hash,
    pub policy: EffectPolicy,
}

/// Forks a world, once: asked again for the same child with the same parent, policy and height, it answers the branch that is there,
/// however far the parent has gone since. Anything else under that id is refused with `WORLD_EXISTS`.
pub async fn fork<P: Plane>(plane: &P, request: ForkWorld) -> Result<Forked, RuntimeError> {
    fork_named(plane, request, Naming::default(), None).await
}

/// The same, with the name and the labels of the child, and what its durable functions are told first.
pub async fn fork_named<P: Plane>(
    plane: &P,
    request: ForkWorld,
    Naming { name, labels }: Naming,
    told: Option<Vec<u8>>,
) -> Result<Forked, RuntimeError> {
    let ForkWorld { universe, parent, child, policy, manifest, now_ns, .. } = request;
    let told_hash = told.as_deref().map(Hash::of);
    if let Some(before) = made_before(plane, &request, told_hash).await? {
        return Ok(before);
    }
    let (note, height) = nearest(plane, &request).await?;
    let bytes = match note.height == height {
        true => plane.blobs().get(universe, note.snapshot).await?,
        false => replayed(plane, &request, &note, height).await?,
    };
    let snapshot = KernelSnapshot::from_bytes(&bytes)?;
    let (policy, answers) = policy.of(&snapshot);
    let mut fork = fork_in(&snapshot, universe, ForkRequest { child, policy, answers, now_ns })?;
    require_registered(plane, universe, fork.note.manifest).await?;
    if let Some(manifest) = manifest {
        require_registered(plane, universe, manifest).await?;
    }
    let parent_snapshot = fork.genesis.parent_snapshot;
    let inherited = dispatch::inherit(plane, universe, &fork, now_ns).await?;
    (fork.genesis.manifest, fork.genesis.told) = (manifest, told_hash);
    let first = Record { height, prev: fork.note.chain, body: Body::ForkGenesis(fork.genesis.clone()) };
    let named = name.as_ref().map(ToString::to_string);
    let request = CreateWorld {
        universe,
        world: child,
        first,
        snapshot: Bytes::from_owner(fork.bytes.clone()),
        inbox: None,
        inherited,
        commands: manifest.map(|to| upgrade(to, now_ns)).into_iter().chain(told.map(|it| tell(it, now_ns))).collect(),
        name,
        labels,
        now_ns,
    };
    let parent_name = Box::pin(world_name(plane, universe, parent)).await;
    let created = create_world(plane.engine(), &**plane.clock(), plane.blobs(), &KernelSnapshots, request).await?;
    tracing::info!(%parent, parent_name, %child, name = named, %height, policy = policy.as_str(), "a world was forked");
    Ok(Forked { created, forked_at: height, parent_snapshot, policy })
}

/// Publishes the rest of what a branch inherits whose creator ended before all was, as its holder, before it takes a turn: its first
/// snapshot is its baseline still.
pub(crate) async fn inherit_rest<P: Plane>(
    plane: &P,
    fence: Fence,
    snapshot: &[u8],
    from: u64,
) -> Result<(), RuntimeError> {
    let (Fence { universe, world, .. }, now_ns) = (fence, plane.now_ns());
    let snapshot = KernelSnapshot::from_bytes(snapshot)?;
    let height = snapshot.height();
    let history = History::open(plane.engine(), plane.segments().clone(), universe, world, height).await?;
    let page = history.pages_of(1).next_page().await?.unwrap_or_default();
    let Some(Record { body: Body::ForkGenesis(genesis), .. }) = page.first().and_then(|it| it.decode().ok()) else {
        let reason = "it inherits, and its first record does not say from which world";
        return Err(WorldError::BeginningInvalid { world, reason }.into());
    };
    let inherited = dispatch::inherit(plane, universe, &Fork::on_record(snapshot, genesis), now_ns).await?;
    let part = Inherit { universe, world, begins_at: height, inherited: &inherited, from, now_ns };
    Ok(inherit_all(plane.engine(), &**plane.clock(), part).await?)
}

/// The command with which a branch begins that runs other code. It is forced: a branch is made to go another way.
fn upgrade(manifest: Hash, now_ns: u64) -> InboxItem {
    let payload = Payload::Inline(cbor::encode(&Upgrade { manifest, forced: true }));
    InboxItem { input: Input::Control { command: "upgrade".to_owned(), payload }, origin: Origin::new(now_ns) }
}

/// The first message to the durable functions of a branch, before anything that it inherits reaches them.
fn tell(payload: Vec<u8>, now_ns: u64) -> InboxItem {
    let (inbox, payload) = (FUNCTIONS_INBOX.to_owned(), Payload::Inline(payload));
    InboxItem { input: Input::Message { inbox, payload, headers: BTreeMap::new() }, origin: Origin::new(now_ns) }
}

/// The branch that is asked for, if it is there already.
async fn made_before<P: Plane>(
    plane: &P,
    request: &ForkWorld,
    told: Option<Hash>,
) -> Result<Option<Forked>, RuntimeError> {
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
                && policy.made(&genesis)
                && genesis.manifest == manifest
                && genesis.told == told
                // What is told names an await: one that was open at the first request may have ended since.
                && (told.is_some() || !matches!(at, ForkAt::Height(height) if height != genesis.forked_at)) =>
        {
            let ForkGenesis { forked_at, parent_snapshot, policy, .. } = genesis;
            Ok(Some(Forked { created: WorldCreated::Before, forked_at, parent_snapshot, policy }))
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
