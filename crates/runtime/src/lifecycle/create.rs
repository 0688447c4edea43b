//! Create a world from a manifest.

use super::require_registered;
use crate::{
    KernelSnapshots, Plane, RuntimeError,
    objects::{AtHand, with_objects},
};
use bytes::Bytes;
use mundi_kernel::{World, manifest::ManifestError};
use mundi_model::{
    Hash, Height, LabelChange, UniverseId, WorldId, WorldName,
    record::{Body, Genesis, Record},
};
use mundi_store::{
    keyspace::world_meta::InboxBounds,
    protocol::{CreateWorld, Inherited, WorldCreated, create_world},
};

/// A world that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct NewWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    /// Registered, and in the content store with its program and schemas.
    pub manifest: Hash,
    /// `None` takes the defaults.
    pub inbox: Option<InboxBounds>,
    /// When it was asked for. A request that is repeated says the same, and gets the same world.
    pub now_ns: u64,
}

/// Creates a world, once.
pub async fn create<P: Plane>(plane: &P, new: NewWorld) -> Result<WorldCreated, RuntimeError> {
    create_named(plane, new, Naming::default()).await
}

/// The name of a new world, and its labels.
#[derive(Debug, Clone, Default)]
pub struct Naming {
    /// No other world of the universe may have it.
    pub name: Option<WorldName>,
    /// Of a fork: beside those of its parent.
    pub labels: Option<LabelChange>,
}

impl From<Option<WorldName>> for Naming {
    fn from(name: Option<WorldName>) -> Self {
        Self { name, labels: None }
    }
}

/// The same, with its name and its labels.
pub async fn create_named<P: Plane>(plane: &P, new: NewWorld, naming: Naming) -> Result<WorldCreated, RuntimeError> {
    let request = begin_world(plane, new, naming).await?;
    Ok(create_world(plane.engine(), &**plane.clock(), plane.blobs(), &KernelSnapshots, request).await?)
}

/// Makes the genesis of a new world. Nothing is created yet.
pub async fn begin_world<P: Plane>(
    plane: &P,
    new: NewWorld,
    Naming { name, labels }: Naming,
) -> Result<CreateWorld, RuntimeError> {
    let NewWorld { universe, world, manifest, inbox, now_ns } = new;
    require_registered(plane, universe, manifest).await?;
    let genesis = Genesis { universe, world, manifest, now_ns };
    let mut at_hand = AtHand::default();
    let registry = plane.registry().clone();
    let begin = |objects: &AtHand| -> Result<_, ManifestError> {
        Ok(World::unborn(objects, registry.clone(), &genesis)?.snapshot(objects)?.bytes)
    };
    let snapshot = with_objects(plane, (universe, world), &mut at_hand, begin).await?;
    let body = Body::Genesis(genesis.clone());
    Ok(CreateWorld {
        universe,
        world,
        first: Record { height: Height::GENESIS, prev: Record::CHAIN_START, body },
        snapshot: Bytes::from_owner(snapshot),
        inbox,
        inherited: Inherited::default(),
        commands: Vec::new(),
        name,
        labels,
        now_ns,
    })
}
