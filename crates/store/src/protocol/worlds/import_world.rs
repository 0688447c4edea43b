//! Import a world whose records were written as segments before.
//!
//! Guarantees: a world appears whole, with all its history, its snapshots, the record that says how it came and the
//! baseline from which it continues, and its name if it has one, or not at all. An id that was ever used is refused. Objects and segments are stored
//! before; if the rest fails, they are found again by the next import or are unreachable and swept one day.
//! Unknown commit: run again; a world that begins with this very record is this world.

use crate::protocol::{
    CarriedChildren, Inherit, Inherited, WorldCreated, WorldError, inherit_all,
    worlds::{create_world::created_before, inherit::publish_first, name_world::claim_name},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::{
        baseline,
        journal_head::{self, JournalHead, Position},
        manifest_at,
        segment::{self, SegmentRecord},
        snapshot, universe_meta, world_index,
        world_meta::{self, InboxBounds, WorldMeta, WorldState},
    },
    run,
    snapshot::{ReadSnapshot, SnapshotError, SnapshotFacts, check_facts, check_horizon, note},
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Hash, Height, Labels, UniverseId, WorldId, WorldName, limits,
    record::{Body, EffectPolicy, Record, SnapshotNote},
};

/// Creates a world that arrives in a bundle.
#[derive(Debug, Clone)]
pub struct ImportWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    /// The records from genesis on, contiguous; their objects are written.
    pub segments: Vec<SegmentRecord>,
    /// From which height on which manifest holds.
    pub manifests: Vec<(Height, Hash)>,
    /// Snapshots of the history, each once.
    pub snapshots: Vec<SnapshotNote>,
    /// The fork genesis by which it arrives, chained to the last record of the segments.
    pub arrival: Record,
    /// The snapshot at the height of that record.
    pub snapshot: Bytes,
    /// From this height on the records are of a world of this id.
    pub own_from: Height,
    /// The effects and timers that were open when it left; published before it takes its first turn.
    pub inherited: Inherited,
    /// Its children where it came from.
    pub children: Option<CarriedChildren>,
    /// The policy for its effects from here on.
    pub policy: EffectPolicy,
    /// Its name here. No other world of the universe may have it.
    pub name: Option<WorldName>,
    /// The labels that it had when it left.
    pub labels: Option<Labels>,
    pub now_ns: u64,
}

/// Stores the snapshot, then makes the world appear.
pub async fn import_world<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    reader: &dyn ReadSnapshot,
    request: &ImportWorld,
) -> Result<WorldCreated, StoreError> {
    let facts = reader.facts(&request.snapshot).map_err(SnapshotError::Unreadable)?;
    let arrival = plan(request, &facts)?;
    let snapshot = blobs.put(request.universe, request.snapshot.clone(), &facts.roots).await?;
    let ImportWorld { universe, world, inherited, now_ns, .. } = request;
    let protocol = Import { request, facts, arrival, snapshot, blobs };
    let (created, next) = run(engine, clock, &protocol).await?.output;
    if let Some(from) = next {
        let begins_at = request.arrival.height;
        let part = Inherit { universe: *universe, world: *world, begins_at, inherited, from, now_ns: *now_ns };
        inherit_all(engine, clock, part).await?;
    }
    Ok(created)
}

fn plan(request: &ImportWorld, facts: &SnapshotFacts) -> Result<Batch, StoreError> {
    let invalid = |reason| StoreError::from(WorldError::BeginningInvalid { world: request.world, reason });
    check_facts(facts)?;
    check_horizon(facts)?;
    let Record { height, prev, body } = &request.arrival;
    let Body::ForkGenesis(fork) = body else { return Err(invalid("it does not arrive by a fork genesis")) };
    if (fork.universe, fork.world, fork.forked_at) != (request.universe, request.world, *height) {
        return Err(invalid("the record by which it arrives names another world or height"));
    }
    let mut next = Height::GENESIS;
    for segment in &request.segments {
        if segment.start != next {
            return Err(invalid("its segments leave heights out"));
        }
        next = segment.end;
    }
    if next != *height || facts.height != *height {
        return Err(invalid("it does not arrive where its history ends"));
    }
    Ok(Batch::reserved(JournalHead { height: *height, chain: *prev }, [body.clone()])?)
}

struct Import<'a, B> {
    request: &'a ImportWorld,
    facts: SnapshotFacts,
    arrival: Batch,
    snapshot: Hash,
    blobs: &'a B,
}

impl<B: Blobs> Protocol for Import<'_, B> {
    /// Also where the rest of what it inherits begins, if not all was published.
    type Output = (WorldCreated, Option<u64>);

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let ImportWorld { universe, world, .. } = *self.request;
        if universe_meta::read(tx, universe).await?.is_none() {
            return Err(WorldError::UniverseNotFound(universe).into());
        }
        if let Some(meta) = world_meta::read(tx, universe, world).await? {
            return Ok((created_before(world, &meta, self.arrival.end().chain)?, meta.inherits_from));
        }
        let missing = self.blobs.missing(tx, universe, &self.facts.roots).await?;
        if !missing.is_empty() {
            return Err(SnapshotError::RootsMissing { missing }.into());
        }
        if let Some(name) = &self.request.name {
            claim_name(tx, universe, name, world).await?;
        }
        if let Some(children) = &self.request.children {
            children.write(tx, universe, world)?; // before what is spawned anew
        }
        let (meta, ImportWorld { arrival, inherited, now_ns, .. }) = (self.write(tx)?, self.request);
        let next = publish_first(tx, (universe, world, meta), inherited, arrival.height, (0, *now_ns)).await?;
        Ok((WorldCreated::Now, next))
    }
}

impl<B: Blobs> Import<'_, B> {
    fn write<T: Transaction>(&self, tx: &mut T) -> Result<WorldMeta, StoreError> {
        let ImportWorld { universe, world, now_ns, own_from, .. } = *self.request;
        let meta = WorldMeta {
            created_at_ns: now_ns,
            state: WorldState::Live,
            first_record: self.arrival.end().chain,
            first_height: own_from,
            // What it descends from is in its records; here it has no relatives.
            lineage: None,
            priority: None,
            hold: None,
            policy: Some(self.request.policy),
            name: self.request.name.as_ref().map(WorldName::to_string),
            paused: Some(self.facts.paused),
            paused_from: None,
            inherits_from: None,
            labels: self.request.labels.clone(),
            inbox: InboxBounds {
                items_max: limits::INBOX_ITEMS_MAX_DEFAULT,
                bytes_max: limits::INBOX_BYTES_MAX_DEFAULT,
            },
        };
        world_meta::write(tx, universe, world, None, &meta)?;
        let manifest = self.request.manifests.iter().max_by_key(|(from, _)| *from).map(|(_, manifest)| *manifest);
        world_index::follow_manifest(tx, universe, world, None, manifest)?;
        world_index::follow_active(tx, universe, world, None, Some(0))?;
        for segment in &self.request.segments {
            segment::write(tx, universe, world, segment)?;
        }
        for (from, manifest) in &self.request.manifests {
            manifest_at::write(tx, universe, world, *from, *manifest)?;
        }
        for taken in &self.request.snapshots {
            snapshot::write(tx, universe, world, taken)?;
        }
        self.arrival.write(tx, universe, world)?;
        journal_head::write(tx, universe, world, Position::new(self.arrival.end()))?;
        baseline::write(tx, universe, world, &note(self.snapshot, &self.facts, self.arrival.start().chain))?;
        Ok(meta)
    }
}
