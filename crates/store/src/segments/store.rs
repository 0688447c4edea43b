//! The segments of all worlds, as the journal's readers see them.

use super::{Exported, SegmentReader, export_segment, format::place_of_path};
use crate::{
    Clock, Fence, StoreError,
    journal::Segments,
    keyspace::segment::{self, SegmentRecord},
    objects::Objects,
    protocol::ExportPolicy,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Height, UniverseId, WorldId};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// Reads records out of segments. It remembers the segment that it read last, because a replay reads one in several
/// pages; clones share that memory.
#[derive(Clone)]
pub struct SegmentStore<E> {
    engine: E,
    objects: Objects,
    last: Arc<Mutex<Option<Opened>>>,
}

struct Opened {
    universe: UniverseId,
    world: WorldId,
    record: SegmentRecord,
    reader: Arc<SegmentReader>,
}

impl<E: Engine> SegmentStore<E> {
    pub fn new(engine: E, objects: Objects) -> Self {
        Self { engine, objects, last: Arc::default() }
    }

    /// The segment that holds a height, opened.
    async fn holding(
        &self,
        universe: UniverseId,
        world: WorldId,
        height: Height,
    ) -> Result<Option<Arc<SegmentReader>>, StoreError> {
        let mut tx = self.engine.begin().await?;
        let Some(record) = segment::holding(&mut tx, universe, world, height).await? else { return Ok(None) };
        drop(tx);
        if let Some(last) = &*self.last.lock()
            && (last.universe, last.world) == (universe, world)
            && last.record == record
        {
            return Ok(Some(last.reader.clone()));
        }
        let reader = Arc::new(SegmentReader::open(&self.objects, universe, world, &record).await?);
        *self.last.lock() = Some(Opened { universe, world, record, reader: reader.clone() });
        Ok(Some(reader))
    }
}

impl<E: Engine> Segments for SegmentStore<E> {
    async fn read(
        &self,
        universe: UniverseId,
        world: WorldId,
        from: Height,
        until: Height,
    ) -> Result<Option<Vec<(Height, Bytes)>>, StoreError> {
        let Some(reader) = self.holding(universe, world, from).await? else { return Ok(None) };
        let mut records = reader.read(from).await?;
        records.retain(|(height, _)| *height < until);
        Ok(Some(records))
    }

    async fn check(&self, universe: UniverseId, path: &str) -> Result<(), StoreError> {
        let Some((world, end)) = place_of_path(universe, path) else { return Ok(()) };
        let record = segment::read(&mut self.engine.begin().await?, universe, world, end).await?;
        if let Some(record) = record {
            SegmentReader::open(&self.objects, universe, world, &record).await?.verify().await?;
        }
        Ok(())
    }

    async fn export(
        &self,
        clock: &dyn Clock,
        fence: Fence,
        policy: ExportPolicy,
        pause: Duration,
    ) -> Result<Exported, StoreError> {
        export_segment(&self.engine, &self.objects, clock, fence, policy, pause).await
    }
}
