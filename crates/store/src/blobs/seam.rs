//! The content store as protocols see it.

use super::{Cas, Verify};
use crate::{StoreError, blob::Blobs, keyspace::cas_meta};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, UniverseId};

impl<E: Engine> Blobs for Cas<E> {
    async fn put(&self, universe: UniverseId, bytes: Bytes, refs: &[Hash]) -> Result<Hash, StoreError> {
        Cas::put(self, universe, bytes, &refs.iter().copied().collect()).await
    }

    async fn get(&self, universe: UniverseId, hash: Hash) -> Result<Bytes, StoreError> {
        Cas::get(self, universe, hash, Verify::Always).await
    }

    async fn has_objects(&self, universe: UniverseId) -> Result<bool, StoreError> {
        self.has_most_objects(universe).await
    }

    async fn missing<T: Transaction>(
        &self,
        tx: &mut T,
        universe: UniverseId,
        hashes: &[Hash],
    ) -> Result<Vec<Hash>, StoreError> {
        let now_ns = self.clock.now_ns();
        let mut missing = Vec::new();
        for &hash in hashes {
            match cas_meta::read(tx, universe, hash).await? {
                None => missing.push(hash),
                Some(meta) => {
                    if let Some(meta) = meta.reprieved(now_ns) {
                        cas_meta::write(tx, universe, hash, &meta)?;
                    }
                }
            }
        }
        Ok(missing)
    }
}
