//! The segments of all worlds, as the journal's readers see them.

use super::SegmentReader;
use crate::{
    StoreError,
    journal::Segments,
    keyspace::segment::{self, SegmentRecord},
    objects::Objects,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Height, UniverseId, WorldId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Reads records out of segments. It remembers the footer that it used last: a replay reads a segment in several pages.
pub struct SegmentStore<E> {
    engine: E,
    objects: Objects,
    last: Mutex<Option<(UniverseId, WorldId, SegmentRecord, Arc<SegmentReader>)>>,
}

impl<E: Engine> SegmentStore<E> {
    pub fn new(engine: E, objects: Objects) -> Self {
        Self { engine, objects, last: Mutex::new(None) }
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
        if let Some((u, w, r, reader)) = &*self.last.lock()
            && (*u, *w) == (universe, world)
            && *r == record
        {
            return Ok(Some(reader.clone()));
        }
        let reader = Arc::new(SegmentReader::open(&self.objects, universe, world, &record).await?);
        *self.last.lock() = Some((universe, world, record, reader.clone()));
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
}
