//! Bringing a bundle into a universe.
//!
//! It is proven first. Then its objects are stored, its records become segments, and one transaction makes the world
//! appear. What was exported stays byte for byte what it was; one record is added, a fork genesis that says where the
//! world came to, under which id, and what became of its open effects. Its inbox begins empty.

use super::{
    Bundle, Proof,
    export::NodePlane,
    format::{Header, Packed},
    open::Item,
};
use crate::{
    KernelSnapshots, Plane, RuntimeError, control::short_id, effects::dispatch, lifecycle::register_trusted,
    snapshots::store_cells,
};
use bytes::Bytes;
use futures_util::{future::try_join_all, stream};
use mundi_engine::Engine;
use mundi_kernel::{
    Confined,
    fork::{Fork, ForkRequest, arrive},
    intents::{OpenIntent, intent_hash},
    snapshot::KernelSnapshot,
    turn::Publish,
};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorldAddress, WorldId, WorldName, limits,
    record::{Body, EffectPolicy, Record},
};
use mundi_store::{
    StoreError,
    blobs::PutStream,
    keyspace::segment::SegmentRecord,
    protocol::{CarriedChildren, DescribeWorld, FreeName, ImportWorld, WorldError, import_world},
    segments::{SegmentBuilder, object_path},
};
use std::{
    collections::{BTreeSet, VecDeque},
    io::{Read, Seek},
};

/// Puts that are in progress at a time: they share a sync.
const PUTS_MAX: usize = 64;

/// How a bundle is brought in.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    pub universe: UniverseId,
    /// The id or the name that it shall have; its own id if nothing is said.
    pub world: Option<WorldAddress>,
    /// Whether its open effects are carried out here (`Live`), or cancelled (`Suppress`). Nothing of this holds for a world whose
    /// effects must not leave it: they are answered as they were there.
    pub policy: EffectPolicy,
    pub now_ns: u64,
}

/// A world that has arrived.
#[derive(Debug, Clone)]
pub struct Imported {
    pub world: WorldId,
    /// Its name here.
    pub name: WorldName,
    /// Every record below is as it was exported; the one at this height says how it came.
    pub arrived_at: Height,
    pub proof: Proof,
}

/// Brings in a bundle that is proven.
pub async fn import<E: Engine, R: Read + Seek + Send>(
    plane: &NodePlane<E>,
    bundle: &Bundle<R>,
    proof: Proof,
    request: ImportRequest,
) -> Result<Imported, RuntimeError> {
    let ImportRequest { universe, policy, now_ns, .. } = request;
    let named = request.world.as_ref().and_then(WorldAddress::name).cloned();
    let address = request.world.unwrap_or_else(|| bundle.header().world.into());
    let world = address.world(universe);
    refuse_taken(plane, universe, world).await?;
    let parent = KernelSnapshot::from_bytes(&proof.from_genesis.state.bytes)?;
    let fork = arrive(&parent, universe, ForkRequest::new(world, policy, now_ns))?;
    store_objects(plane, universe, bundle).await?;
    let state = &proof.from_genesis.state;
    let own = state.note.snapshot;
    store_cells(plane, universe, state.objects.iter().filter(|(hash, _)| *hash != own).cloned().collect()).await?;
    let mut inherited = dispatch::inherit(plane, universe, &fork, now_ns).await?;
    if let Some(children) = bundle.children() {
        inherited.budgets = children.budgets_above(&inherited.budgets);
    }
    let head = bundle.header().head;
    let mut import = ImportWorld {
        universe,
        world,
        segments: store_segments(plane, universe, world, bundle).await?,
        manifests: bundle.manifests().to_vec(),
        snapshots: bundle.snapshots().to_vec(),
        arrival: Record { height: head, prev: fork.note.chain, body: Body::ForkGenesis(fork.genesis.clone()) },
        snapshot: Bytes::from_owner(fork.bytes.clone()),
        own_from: if world == bundle.header().world { bundle.header().own_from() } else { head },
        inherited,
        children: bundle.children().map(|carried| without_open(carried, &fork)),
        policy: held_policy(&fork),
        name: None,
        labels: bundle.header().labels.clone(),
        now_ns,
    };
    // Who imports a bundle may administer the universe: that is what brings its programs in.
    let manifests: Vec<Hash> = import.manifests.iter().map(|(_, manifest)| *manifest).collect();
    register_trusted(plane, universe, &manifests).await?;
    let mut tries_left = limits::DEFAULT_NAME_TRIES_MAX;
    let name = loop {
        tries_left -= 1;
        let (name, may_be_another) = match &named {
            Some(name) => (name.clone(), false),
            None => (default_name(plane, universe, bundle.header()).await?, tries_left > 0),
        };
        import.name = Some(name.clone());
        match import_world(&plane.engine, &**plane.clock(), &plane.blobs, &KernelSnapshots, &import).await {
            Err(StoreError::World(WorldError::NameTaken { .. })) if may_be_another => {}
            imported => break imported.map(|_| name)?,
        }
    };
    tracing::info!(%world, %name, %head, "a world was imported");
    Ok(Imported { world, name, arrived_at: head, proof })
}

/// The policy that a world has from its arrival on.
fn held_policy(fork: &Fork) -> EffectPolicy {
    match fork.snapshot.confined() {
        Some(Confined::Recorded) => EffectPolicy::Recorded,
        Some(Confined::Sandbox { .. }) => EffectPolicy::Sandbox,
        None => fork.genesis.policy,
    }
}

/// The name that it had, or one like it that is free here.
async fn default_name<E: Engine>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    header: &Header,
) -> Result<WorldName, RuntimeError> {
    let of = header.name.clone().filter(|name| name.parse::<WorldName>().is_ok());
    let free =
        FreeName { universe, alone: of.is_some(), of: of.unwrap_or_else(|| short_id(header.world)), how: "import" };
    Ok(plane.run(&free).await?.output)
}

/// Before anything is stored, though the transaction at the end asks again.
async fn refuse_taken<E: Engine>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    world: WorldId,
) -> Result<(), RuntimeError> {
    match plane.run(&DescribeWorld { universe, world }).await {
        Err(error) if error.code() == Code::WorldNotFound => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(WorldError::Exists(world).into()),
    }
}

/// Stores all objects in the order of the file, in which none comes before what it refers to.
async fn store_objects<E: Engine, R: Read + Seek + Send>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    bundle: &Bundle<R>,
) -> Result<(), RuntimeError> {
    let (mut mark, mut waiting) = (bundle.first_object(), Vec::new());
    while let Some((items, next)) = bundle.objects_at(mark)? {
        mark = next;
        for item in items {
            match item {
                Item::Small(object) => {
                    let hash = Hash::of(&object.bytes);
                    let depends = |(before, _): &(Hash, Packed)| object.refs.contains(before);
                    if waiting.len() == PUTS_MAX || waiting.iter().any(depends) {
                        put_all(plane, universe, &mut waiting).await?;
                    }
                    waiting.push((hash, object));
                }
                Item::Large(large) => {
                    put_all(plane, universe, &mut waiting).await?;
                    let put = PutStream { stated: Some(large.hash), refs: large.refs.into_iter().collect() };
                    let parts = Parts { bundle, mark, left: large.size, ready: VecDeque::new() };
                    let pieces = stream::unfold(parts, |mut parts| async move { Some((parts.next()?, parts)) });
                    plane.blobs.put_stream(universe, Box::pin(pieces), put).await?;
                }
                // Read by the object that they are parts of.
                Item::Part(_) => {}
            }
        }
    }
    put_all(plane, universe, &mut waiting).await
}

async fn put_all<E: Engine>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    waiting: &mut Vec<(Hash, Packed)>,
) -> Result<(), RuntimeError> {
    let puts = std::mem::take(waiting).into_iter().map(|(hash, Packed { refs, bytes })| async move {
        let refs: BTreeSet<Hash> = refs.into_iter().collect();
        plane.blobs.put_expecting(universe, hash, bytes.into(), &refs).await
    });
    try_join_all(puts).await?;
    Ok(())
}

/// The parts of a large object, one after the other.
struct Parts<'a, R> {
    bundle: &'a Bundle<R>,
    mark: super::frames::Mark,
    left: u64,
    ready: VecDeque<Bytes>,
}

impl<R: Read + Seek> Parts<'_, R> {
    fn next(&mut self) -> Option<Result<Bytes, String>> {
        if self.left == 0 {
            return None;
        }
        if self.ready.is_empty() {
            match self.bundle.objects_at(self.mark) {
                Ok(Some((items, next))) => {
                    self.mark = next;
                    let part = |item| if let Item::Part(bytes) = item { Some(Bytes::from(bytes)) } else { None };
                    self.ready.extend(items.into_iter().filter_map(part));
                }
                Ok(None) => {}
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        let Some(part) = self.ready.pop_front() else { return Some(Err("its parts end too early".to_owned())) };
        self.left = self.left.saturating_sub(part.len() as u64);
        Some(Ok(part))
    }
}

/// Writes the records as segments of the world that arrives.
async fn store_segments<E: Engine, R: Read + Seek + Send>(
    plane: &NodePlane<E>,
    universe: UniverseId,
    world: WorldId,
    bundle: &Bundle<R>,
) -> Result<Vec<SegmentRecord>, RuntimeError> {
    let mut segments = Vec::new();
    let mut builder = SegmentBuilder::new(universe, world, Height::GENESIS);
    let mut mark = bundle.first_record();
    while let Some((records, next)) = bundle.records_at(mark)? {
        mark = next;
        for (_, bytes) in records {
            builder.push(&bytes).map_err(StoreError::from)?;
            if builder.is_full() {
                let next = SegmentBuilder::new(universe, world, builder.next());
                segments.push(store_segment(plane, (universe, world), std::mem::replace(&mut builder, next)).await?);
            }
        }
    }
    if builder.next() > segments.last().map_or(Height::GENESIS, |segment: &SegmentRecord| segment.end) {
        segments.push(store_segment(plane, (universe, world), builder).await?);
    }
    Ok(segments)
}

async fn store_segment<E: Engine>(
    plane: &NodePlane<E>,
    (universe, world): (UniverseId, WorldId),
    builder: SegmentBuilder,
) -> Result<SegmentRecord, RuntimeError> {
    let built = builder.finish().map_err(StoreError::from)?;
    let path = object_path(universe, world, built.record.start, built.record.end);
    let put = plane.blobs.objects().put(&path, built.object).await;
    put.map_err(|error| StoreError::from(mundi_store::segments::SegmentError::from(error)))?;
    Ok(built.record)
}

/// A child whose spawn is open in the fork is spawned there again, or its spawn is answered by the policy: its end never reached the world.
fn without_open(carried: &CarriedChildren, fork: &Fork) -> CarriedChildren {
    let ancestor = |publish: &Publish| {
        let OpenIntent { place, kind, params, .. } = &publish.intent;
        intent_hash(fork.genesis.parent, *place, kind, params)
    };
    let open: BTreeSet<_> = fork.publish.iter().map(ancestor).collect();
    let mut carried = carried.clone();
    carried.ended.retain(|child| !open.contains(&child.token.intent));
    carried
}
