//! Blobs on the heap.

use crate::{
    StoreError,
    blob::{BlobError, Blobs},
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// A content store that forgets with the process. It is not transactional: a test that removes a blob
/// under a running transaction wants the real one.
#[derive(Debug, Clone, Default)]
pub struct HeapBlobs(Arc<Mutex<BTreeMap<(UniverseId, Hash), Bytes>>>);

impl HeapBlobs {
    /// Loses a blob, as a broken disk would.
    pub fn lose(&self, universe: UniverseId, hash: Hash) {
        self.0.lock().remove(&(universe, hash));
    }

    /// Puts other bytes under a name, as a broken disk would.
    pub fn corrupt(&self, universe: UniverseId, hash: Hash, bytes: Bytes) {
        self.0.lock().insert((universe, hash), bytes);
    }
}

impl Blobs for HeapBlobs {
    async fn put(&self, universe: UniverseId, bytes: Bytes, _: &[Hash]) -> Result<Hash, StoreError> {
        let hash = Hash::of(&bytes);
        self.0.lock().insert((universe, hash), bytes);
        Ok(hash)
    }

    async fn get(&self, universe: UniverseId, hash: Hash) -> Result<Bytes, StoreError> {
        Ok(self.0.lock().get(&(universe, hash)).cloned().ok_or(BlobError::NotFound(hash))?)
    }

    async fn missing<T: Transaction>(
        &self,
        _: &mut T,
        universe: UniverseId,
        hashes: &[Hash],
    ) -> Result<Vec<Hash>, StoreError> {
        let blobs = self.0.lock();
        Ok(hashes.iter().filter(|hash| !blobs.contains_key(&(universe, **hash))).copied().collect())
    }
}
