//! Whether the object store is the one that the engine speaks of: a sample of what should be there.

use super::{BlobError, Cas, body_path};
use crate::{
    StoreError,
    keyspace::{
        Family,
        cas_meta::{self, Body, CasMeta},
        decode_value,
    },
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, UniverseId};
use object_store::path::Path;

/// Bodies that are looked for.
const BODIES_MAX: usize = 16;
/// Objects whose metadata is read to find them: most may be in the engine.
const OBJECTS_MAX: usize = 256;

impl<E: Engine> Cas<E> {
    /// Whether most of the bodies are there that should be. They are named by their hash, so the first ones are as good as any.
    pub(super) async fn has_most_bodies(&self, universe: UniverseId) -> Result<bool, StoreError> {
        let paths = self.some_bodies(universe).await?;
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
        paths.truncate(BODIES_MAX);
        Ok(paths)
    }
}
