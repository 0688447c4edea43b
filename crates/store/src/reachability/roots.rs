//! What refers to objects from outside of the content store.

use super::{
    refs::{hashes_in, refs_of_record},
    scan::scan,
};
use crate::{
    StoreError,
    journal::JournalError,
    keyspace::{
        Family, Span, decode_value, gc_pin, journal_entry,
        segment::{self, SegmentRecord},
        world_meta::{self, WorldMeta, WorldState},
    },
    objects::Objects,
    segments::SegmentReader,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, UniverseId, WorldId, cbor::CborError};
use std::collections::BTreeSet;

/// The worlds of a universe that are not deleted.
pub(super) async fn live_worlds<E: Engine>(engine: &E, universe: UniverseId) -> Result<BTreeSet<WorldId>, StoreError> {
    let mut worlds = BTreeSet::new();
    let mut span = world_meta::worlds_prefix(universe).span();
    loop {
        // One seek per world: its other keys are skipped, not read.
        let mut tx = engine.begin().await?;
        let page = tx.range(span.read(1).snapshot()).await?;
        let Some((key, _)) = page.items.first() else { return Ok(worlds) };
        let world = world_meta::world_of_key(universe, key)?;
        let meta: Option<WorldMeta> = world_meta::read(&mut tx, universe, world).await?;
        if meta.is_some_and(|meta| meta.state != WorldState::Deleted) {
            worlds.insert(world);
        }
        span = Span { start: world_meta::world_prefix(universe, world).span().end, end: span.end };
    }
}

/// Adds what one world refers to: pins, inbox, records, snapshots, segments, and whatever else it keeps.
///
/// An item that is drained moves from the inbox to the journal. The inbox is read first, so it is seen in one of them.
pub(super) async fn of_world<E: Engine>(
    engine: &E,
    objects: &Objects,
    universe: UniverseId,
    world: WorldId,
    refs: &mut BTreeSet<Hash>,
) -> Result<(), StoreError> {
    let hot = journal_entry::prefix(universe, world).span();
    let all = world_meta::world_prefix(universe, world).span();
    let above = Span { start: hot.end.clone(), end: all.end };
    let below = Span { start: all.start, end: hot.start.clone() };
    for span in [above, below] {
        scan(engine, span, |_, value| {
            hashes_in(value, &mut |hash| {
                refs.insert(hash);
            });
            Ok(())
        })
        .await?;
    }
    scan(engine, gc_pin::span(universe, world), |key, _| {
        refs.insert(gc_pin::parse(universe, world, key)?);
        Ok(())
    })
    .await?;
    of_hot_records(engine, universe, world, hot, refs).await?;
    of_segments(engine, objects, universe, world, refs).await
}

async fn of_hot_records<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
    hot: Span,
    refs: &mut BTreeSet<Hash>,
) -> Result<(), StoreError> {
    scan(engine, hot, |key, value| {
        for record in journal_entry::records(universe, world, key, value)? {
            let height = record.height;
            let damaged = |cause: CborError| JournalError::RecordDamaged { world, height, cause: cause.to_string() };
            refs_of_record(&record.decode().map_err(damaged)?, &mut |hash| {
                refs.insert(hash);
            });
        }
        Ok(())
    })
    .await
}

/// Read after the hot records: an export adds its segment before it deletes them.
async fn of_segments<E: Engine>(
    engine: &E,
    objects: &Objects,
    universe: UniverseId,
    world: WorldId,
    refs: &mut BTreeSet<Hash>,
) -> Result<(), StoreError> {
    let mut segments: Vec<SegmentRecord> = Vec::new();
    scan(engine, segment::span(universe, world), |key, value| {
        segments.push(decode_value(Family::Segment, key, value)?);
        Ok(())
    })
    .await?;
    for record in &segments {
        refs.extend(SegmentReader::open(objects, universe, world, record).await?.refs());
    }
    Ok(())
}

/// Adds what a universe itself refers to, and its queues: effects, timers, dead letters, and what may be added to them.
pub(super) async fn of_universe<E: Engine>(
    engine: &E,
    universe: UniverseId,
    refs: &mut BTreeSet<Hash>,
) -> Result<(), StoreError> {
    // Between the two lie the families of the content store, which name every object; above lie the worlds, which are
    // walked one by one.
    const { assert!((Family::UniverseMeta as u8) < Family::CasMeta as u8) };
    const { assert!((Family::Sweep as u8) < Family::EffectPending as u8) };
    let own = Span { start: Family::UniverseMeta.prefix(universe), end: Family::CasMeta.prefix(universe) };
    let queues = Span { start: Family::EffectPending.prefix(universe), end: world_meta::worlds_prefix(universe) };
    for span in [own, queues] {
        scan(engine, span, |_, value| {
            hashes_in(value, &mut |hash| {
                refs.insert(hash);
            });
            Ok(())
        })
        .await?;
    }
    Ok(())
}
