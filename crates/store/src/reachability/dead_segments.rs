//! Segments of worlds that were deleted.

use super::{pace::Pace, scan::scan};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blobs::Cas,
    keyspace::{
        Family, segment, segment_checkpoint,
        world_meta::{self, WorldState},
    },
    run,
    segments::{SegmentError, objects_prefix, world_of_path},
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{UniverseId, WorldId};
use object_store::path::Path;
use std::collections::{BTreeMap, BTreeSet};

/// Removes the objects of deleted worlds, then what the engine knows of them; gives how many objects.
///
/// A world is marked as deleted last, and only when no fork shares its history: nobody can read these any more.
pub(super) async fn remove_dead_segments<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let mut objects: BTreeMap<WorldId, Vec<Path>> = BTreeMap::new();
    let find = |meta: object_store::ObjectMeta| {
        if let Some(world) = world_of_path(universe, &meta.location) {
            objects.entry(world).or_default().push(meta.location);
        }
    };
    cas.objects.list(&objects_prefix(universe), find).await.map_err(SegmentError::from)?;
    let mut worlds: BTreeSet<WorldId> = objects.keys().copied().collect();
    scan(&cas.engine, pace, Family::Segment.prefix(universe).span(), |key, _| {
        worlds.insert(segment::parse(universe, key)?.0);
        Ok(())
    })
    .await?;
    scan(&cas.engine, pace, Family::SegmentCheckpoint.prefix(universe).span(), |key, _| {
        worlds.insert(segment_checkpoint::parse(universe, key)?);
        Ok(())
    })
    .await?;
    let mut removed = 0;
    for world in worlds {
        let meta = world_meta::read(&mut cas.engine.begin().await?, universe, world).await?;
        pace.after_keys(1).await;
        if meta.is_none_or(|meta| meta.state != WorldState::Deleted) {
            continue;
        }
        for path in objects.remove(&world).unwrap_or_default() {
            cas.objects.delete(&path).await.map_err(SegmentError::from)?;
            removed += 1;
            pace.after_removal().await;
        }
        let clock: &dyn Clock = &*cas.clock;
        while run(&cas.engine, clock, &ForgetSegments { universe, world }).await?.output {}
    }
    Ok(removed)
}

/// Removes some index records of a deleted world. Run again until it gives `false`; a lost answer is no harm.
struct ForgetSegments {
    universe: UniverseId,
    world: WorldId,
}

impl Protocol for ForgetSegments {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, world } = *self;
        let page = tx.range(segment::span(universe, world).read(1_000)).await?;
        for (key, _) in &page.items {
            tx.delete(key)?;
        }
        tx.delete(segment_checkpoint::key(universe, world).as_bytes())?;
        Ok(page.more)
    }
}
