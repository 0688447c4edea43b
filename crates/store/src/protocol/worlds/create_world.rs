//! Create a world, or a fork of one.
//!
//! Guarantees: a world appears whole, with its first record, its first snapshot as the active baseline, and its
//! place in the lineage, or not at all. What it inherits beyond one transaction is published by [`Inherit`], before its first turn. An id is never used twice, not even after a deletion. A fork costs the
//! same whatever the size of its parent's state and history. The snapshot's blob is stored before; if the rest
//! fails, it is unreachable and is swept one day. A name that it is given stands with it from the beginning, or is
//! added to the world that is there already.
//! Unknown commit: run again; a world that begins with this very record is this world.

use crate::protocol::{
    Enqueue, Inherit, Inherited, NewItem, WorldError, inherit_all, require_live,
    worlds::{inherit::publish_first, label_world, name_world::claim_name},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::{
        baseline,
        forked_world::{self, ForkedWorld},
        journal_entry,
        journal_head::{self, JournalHead, Position},
        manifest_at, segment, snapshot, universe_meta, world_index,
        world_meta::{self, InboxBounds, Lineage, WorldMeta, WorldState},
    },
    run,
    snapshot::{ReadSnapshot, SnapshotError, SnapshotFacts, check_facts, check_horizon, note},
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Hash, Height, LabelChange, Labels, UniverseId, WorldId, WorldName, limits,
    record::{Body, EffectPolicy, InboxItem, Record},
};

/// Creates a world.
#[derive(Debug, Clone)]
pub struct CreateWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    /// A genesis at height 0, or a fork genesis at the height of the fork, chained to the parent's record below.
    pub first: Record,
    /// The snapshot at the height of the first record.
    pub snapshot: Bytes,
    /// `None` takes the defaults.
    pub inbox: Option<InboxBounds>,
    /// The things that a fork inherits; published before it takes its first turn.
    pub inherited: Inherited,
    /// The first items of its inbox, a few at most: commands, what starts a child, or what a fork at an await is told.
    pub commands: Vec<InboxItem>,
    /// Its name. No other world of the universe may have it.
    pub name: Option<WorldName>,
    /// The labels that it is given, beside those that a fork has from its parent: journaled as its first command.
    pub labels: Option<LabelChange>,
    pub now_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldCreated {
    Now,
    /// This very world was created before.
    Before,
}

/// Stores the snapshot, then creates the world.
pub async fn create_world<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    reader: &dyn ReadSnapshot,
    request: CreateWorld,
) -> Result<WorldCreated, StoreError> {
    let protocol = prepare(blobs, reader, &request).await?;
    let CreateWorld { universe, world, first, inherited, now_ns, .. } = &request;
    let (created, next) = run(engine, clock, &protocol).await?.output;
    if let Some(from) = next {
        let begins_at = first.height;
        let part = Inherit { universe: *universe, world: *world, begins_at, inherited, from, now_ns: *now_ns };
        inherit_all(engine, clock, part).await?;
    }
    Ok(created)
}

/// Stores the snapshot. What is left is one transaction, or a part of one.
pub(in crate::protocol) async fn prepare<'a, B: Blobs>(
    blobs: &'a B,
    reader: &dyn ReadSnapshot,
    request: &'a CreateWorld,
) -> Result<Create<'a, B>, StoreError> {
    let facts = reader.facts(&request.snapshot).map_err(SnapshotError::Unreadable)?;
    let beginning = plan(request, &facts)?;
    let snapshot = blobs.put(request.universe, request.snapshot.clone(), &facts.roots).await?;
    Ok(Create { request, facts, beginning, snapshot, blobs })
}

pub(in crate::protocol) struct Create<'a, B> {
    request: &'a CreateWorld,
    facts: SnapshotFacts,
    beginning: Beginning,
    snapshot: Hash,
    blobs: &'a B,
}

/// The parts that follow from the request alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Beginning {
    first: Batch,
    lineage: Option<Lineage>,
    /// The snapshot that the first record names, if it names one.
    snapshot: Option<Hash>,
    /// By which policy a fork was made.
    policy: Option<EffectPolicy>,
}

fn plan(request: &CreateWorld, facts: &SnapshotFacts) -> Result<Beginning, StoreError> {
    let invalid = |reason| WorldError::BeginningInvalid { world: request.world, reason };
    check_facts(facts)?;
    check_horizon(facts)?;
    let Record { height, prev, body } = &request.first;
    if facts.height != *height {
        return Err(invalid("the snapshot is not at the height of the first record").into());
    }
    let (universe, world, lineage, snapshot) = match body {
        Body::Genesis(genesis) => {
            if (*height, *prev) != (Height::GENESIS, Record::CHAIN_START) {
                return Err(invalid("a genesis stands at height 0 and follows nothing").into());
            }
            if genesis.manifest != facts.manifest {
                return Err(invalid("the genesis and the snapshot name different manifests").into());
            }
            (genesis.universe, genesis.world, None, None)
        }
        Body::ForkGenesis(fork) => {
            if *height != fork.forked_at {
                return Err(invalid("a fork genesis stands at the height of the fork").into());
            }
            let (parent, forked_at, parent_snapshot) = (fork.parent, fork.forked_at, fork.parent_snapshot);
            let lineage = Lineage { parent, forked_at, parent_snapshot };
            (fork.universe, fork.world, Some(lineage), Some(fork.snapshot))
        }
        _ => return Err(invalid("the first record is no genesis").into()),
    };
    if (universe, world) != (request.universe, request.world) {
        return Err(invalid("the first record names another world").into());
    }
    let first = Batch::reserved(JournalHead { height: *height, chain: *prev }, [body.clone()])?;
    let policy = if let Body::ForkGenesis(fork) = body { Some(fork.policy) } else { None };
    Ok(Beginning { first, lineage, snapshot, policy })
}

impl<B: Blobs> Protocol for Create<'_, B> {
    /// Also where the rest of what it inherits begins, if not all was published.
    type Output = (WorldCreated, Option<u64>);

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let CreateWorld { universe, world, .. } = *self.request;
        if universe_meta::read(tx, universe).await?.is_none() {
            return Err(WorldError::UniverseNotFound(universe).into());
        }
        if let Some(meta) = world_meta::read(tx, universe, world).await? {
            let before = (created_before(world, &meta, self.beginning.first.end().chain)?, meta.inherits_from);
            self.keep_name(tx, meta).await?;
            return Ok(before);
        }
        self.check_snapshot(tx).await?;
        if let Some(lineage) = &self.beginning.lineage {
            self.join_lineage(tx, lineage).await?;
        }
        if let Some(name) = &self.request.name {
            claim_name(tx, universe, name, world).await?;
        }
        let labels = self.labels(tx).await?;
        let meta = self.write(tx, labels)?;
        Ok((WorldCreated::Now, self.publish(tx, meta).await?))
    }
}

impl<B: Blobs> Create<'_, B> {
    /// A world that has a name keeps it.
    async fn keep_name<T: Transaction>(&self, tx: &mut T, meta: WorldMeta) -> Result<(), StoreError> {
        let CreateWorld { universe, world, .. } = *self.request;
        match &self.request.name {
            Some(name) if meta.name.is_none() => {
                claim_name(tx, universe, name, world).await?;
                let after = WorldMeta { name: Some(name.to_string()), ..meta.clone() };
                world_meta::write(tx, universe, world, Some(&meta), &after)
            }
            _ => Ok(()),
        }
    }

    /// Those of its parent, if it has one, with the ones that it was given.
    async fn labels<T: Transaction>(&self, tx: &mut T) -> Result<Option<Labels>, StoreError> {
        let parent = match &self.beginning.lineage {
            Some(lineage) => world_meta::read(tx, self.request.universe, lineage.parent).await?,
            None => None,
        };
        let inherited = parent.and_then(|parent| parent.labels).unwrap_or_default();
        let labels = match &self.request.labels {
            Some(change) => inherited.after(change).map_err(WorldError::from)?,
            None => inherited,
        };
        Ok(Some(labels).filter(|labels| !labels.is_empty()))
    }

    async fn check_snapshot<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let said = self.beginning.snapshot.unwrap_or(self.snapshot);
        if said != self.snapshot {
            let reason = "the fork genesis names another snapshot";
            return Err(WorldError::BeginningInvalid { world: self.request.world, reason }.into());
        }
        let missing = self.blobs.missing(tx, self.request.universe, &self.facts.roots).await?;
        if missing.is_empty() { Ok(()) } else { Err(SnapshotError::RootsMissing { missing }.into()) }
    }

    /// The parent lives, and its journal leads up to the first record, under the manifest of the snapshot. A snapshot
    /// that the parent has at that height must be the one that the fork names; without one, the journal is proof enough:
    /// whoever replays it makes that snapshot.
    async fn join_lineage<T: Transaction>(&self, tx: &mut T, lineage: &Lineage) -> Result<(), StoreError> {
        let CreateWorld { universe, world, now_ns, .. } = *self.request;
        let Lineage { parent, forked_at, parent_snapshot } = *lineage;
        require_live(tx, universe, parent).await?;
        let not_found = SnapshotError::NotFound { world: parent, height: forked_at };
        let (chain, manifest) = match snapshot::read(tx, universe, parent, forked_at).await? {
            Some(note) if note.snapshot == parent_snapshot => (Some(note.chain), Some(note.manifest)),
            Some(_) => return Err(not_found.into()),
            None => {
                let manifest = manifest_at::read(tx, universe, parent, forked_at).await?;
                (chain_below(tx, universe, parent, forked_at, self.request.first.prev).await?, manifest)
            }
        };
        let reason = if chain.ok_or(not_found)? != self.request.first.prev {
            "the fork genesis does not follow the parent's record below it"
        } else if manifest != Some(self.facts.manifest) {
            "the fork's snapshot was taken under another manifest than the parent's"
        } else {
            let child = ForkedWorld { forked_at, created_at_ns: now_ns };
            return forked_world::write(tx, universe, parent, world, &child);
        };
        Err(WorldError::BeginningInvalid { world, reason }.into())
    }

    async fn publish<T: Transaction>(&self, tx: &mut T, meta: WorldMeta) -> Result<Option<u64>, StoreError> {
        let CreateWorld { universe, world, now_ns, inherited, commands, labels, .. } = self.request;
        let label = labels.as_ref().map(|change| label_world::command(change, *now_ns));
        let items = label.into_iter().chain(commands.iter().cloned()).map(|item| NewItem { item, dedupe: None });
        let items: Vec<NewItem> = items.collect();
        let first = u16::try_from(items.len()).unwrap_or(u16::MAX);
        if !items.is_empty() {
            let enqueue = Enqueue::new(*universe, *world, &items, *now_ns, limits::DEDUPE_WINDOW_NS)?;
            enqueue.run_within(tx).await?;
        }
        let begins_at = self.request.first.height;
        publish_first(tx, (*universe, *world, meta), inherited, begins_at, (first, *now_ns)).await
    }

    fn write<T: Transaction>(&self, tx: &mut T, labels: Option<Labels>) -> Result<WorldMeta, StoreError> {
        let CreateWorld { universe, world, now_ns, inbox, .. } = *self.request;
        let first = &self.beginning.first;
        let note = note(self.snapshot, &self.facts, first.start().chain);
        let meta = WorldMeta {
            created_at_ns: now_ns,
            state: WorldState::Live,
            first_record: first.end().chain,
            first_height: first.start().height,
            lineage: self.beginning.lineage.clone(),
            priority: None,
            hold: None,
            policy: self.beginning.policy,
            name: self.request.name.as_ref().map(WorldName::to_string),
            paused: Some(self.facts.paused),
            paused_from: None,
            inherits_from: None,
            labels,
            inbox: inbox.unwrap_or(InboxBounds {
                items_max: limits::INBOX_ITEMS_MAX_DEFAULT,
                bytes_max: limits::INBOX_BYTES_MAX_DEFAULT,
            }),
        };
        world_meta::write(tx, universe, world, None, &meta)?;
        world_index::follow_manifest(tx, universe, world, None, Some(self.facts.manifest))?;
        world_index::follow_active(tx, universe, world, None, Some(0))?;
        first.write(tx, universe, world)?;
        journal_head::write(tx, universe, world, Position::new(first.end()))?;
        manifest_at::write(tx, universe, world, first.start().height, self.facts.manifest)?;
        snapshot::write(tx, universe, world, &note)?;
        baseline::write(tx, universe, world, &note)?;
        Ok(meta)
    }
}

/// The answer to a request to create a world with this first record, when the world exists already.
pub(super) fn created_before(world: WorldId, meta: &WorldMeta, first_record: Hash) -> Result<WorldCreated, StoreError> {
    match meta.state {
        WorldState::Live | WorldState::Archived if meta.first_record == first_record => Ok(WorldCreated::Before),
        WorldState::Live | WorldState::Archived => Err(WorldError::Exists(world).into()),
        WorldState::Deleting | WorldState::Deleted => Err(WorldError::Deleted(world).into()),
    }
}

/// The hash of the record below a height of a journal. What was exported is not read again: the caller that made the fork has just
/// replayed it, every link checked, and `stated` is what came out.
async fn chain_below<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    height: Height,
    stated: Hash,
) -> Result<Option<Hash>, StoreError> {
    let head = journal_head::read(tx, universe, world).await?.map(|position| position.head);
    if let Some(head) = head.filter(|head| head.height == height) {
        return Ok(Some(head.chain));
    }
    let record = journal_entry::read(tx, universe, world, height).await?;
    if let Some(record) = record.and_then(|record| record.decode().ok()) {
        return Ok(Some(record.prev));
    }
    Ok(segment::holding(tx, universe, world, height).await?.map(|_| stated))
}

#[cfg(test)]
mod tests;
