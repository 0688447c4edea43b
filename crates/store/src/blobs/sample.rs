//! Whether the object store is the right one: checks a sample of the bodies that should exist.

use super::{BlobError, Cas, body_path};
use crate::{
    StoreError,
    keyspace::{
        Family,
        cas_meta::{self, Body, CasMeta},
        decode_value,
        segment::{self, SegmentRecord},
    },
    segments::object_path,
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, UniverseId};
use object_store::path::Path;

/// Bodies that are looked for, and as many segments.
const SAMPLE_MAX: usize = 16;
/// Objects whose metadata is read to find them: most may be in the engine.
const OBJECTS_MAX: usize = 256;

impl<E: Engine> Cas<E> {
    /// Whether most of the bodies and segments are there that should be. Bodies are named by their hash, so the first ones are as good as
    /// any.
    pub(super) async fn has_most_objects(&self, universe: UniverseId) -> Result<bool, StoreError> {
        let mut paths = self.some_bodies(universe).await?;
        paths.extend(self.some_segments(universe).await?);
        let mut missing = 0;
        for path in &paths {
            missing += usize::from(self.objects.size(path).await.map_err(BlobError::from)?.is_none());
        }
        Ok(paths.is_empty() || missing * 2 < paths.len())
    }

    async fn some_bodies(&self, universe: UniverseId) -> Result<Vec<Path>, StoreError> {
        let mut tx = self.engine.begin().await?;
        let page = tx.range(cas_meta::span(universe).read(OBJECTS_MAX).snapshot()).await?;
        let mut paths = Vec::new();
        for (key, value) in page.items {
            let meta: CasMeta = decode_value(Family::CasMeta, &key, &value)?;
            if let Body::Object(generation) = meta.body {
                let hash: Hash = cas_meta::parse(universe, &key)?;
                paths.push(body_path(universe, hash, generation));
            }
        }
        paths.truncate(SAMPLE_MAX);
        Ok(paths)
    }

    async fn some_segments(&self, universe: UniverseId) -> Result<Vec<Path>, StoreError> {
        let mut tx = self.engine.begin().await?;
        let page = tx.range(Family::Segment.prefix(universe).span().read(SAMPLE_MAX).snapshot()).await?;
        let path = |(key, value): &(Bytes, Bytes)| {
            let (world, _) = segment::parse(universe, key)?;
            let SegmentRecord { start, end, .. } = decode_value(Family::Segment, key, value)?;
            Ok(object_path(universe, world, start, end))
        };
        page.items.iter().map(path).collect()
    }
}
