//! The seam to the content store: what protocols need of it, and nothing more.

use crate::StoreError;
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};
use std::future::Future;

pub use crate::blobs::BlobError;

/// Content-addressed objects of a universe. The name is the SHA-256 of the bytes, computed by the store.
pub trait Blobs: Send + Sync {
    /// Stores bytes, with the blobs that they refer to. Storing what is there already changes nothing.
    /// When it returns, body and metadata are durable.
    fn put(
        &self,
        universe: UniverseId,
        bytes: Bytes,
        refs: &[Hash],
    ) -> impl Future<Output = Result<Hash, StoreError>> + Send;

    /// The bytes of an object, verified against its name. A missing or wrong body is a hard error.
    fn get(&self, universe: UniverseId, hash: Hash) -> impl Future<Output = Result<Bytes, StoreError>> + Send;

    /// Whether the object store has most of what it should have of a universe, by a sample. Where it has not, an object that is missing
    /// says nothing about whoever needs it: another folder is mounted, or another bucket is meant.
    fn has_objects(&self, _: UniverseId) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async { Ok(true) }
    }

    /// Which of these objects do not exist, asked inside the transaction that refers to them: a sweep that
    /// removes one meanwhile makes its commit conflict, and one that had condemned some finds them reprieved.
    fn missing<T: Transaction>(
        &self,
        tx: &mut T,
        universe: UniverseId,
        hashes: &[Hash],
    ) -> impl Future<Output = Result<Vec<Hash>, StoreError>> + Send;
}
