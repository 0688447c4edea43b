//! Reading an object that need not fit into memory.

use super::{
    BlobError, Cas,
    get::{Verify, wrong_hash},
};
use crate::{StoreError, keyspace::cas_meta::CasMeta};
use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use mundi_engine::Engine;
use mundi_model::{Hash, Hasher, UniverseId, limits};

/// The bytes of an object, in order, in pieces of at most [`limits::BLOB_PART_BYTES`].
///
/// When it is verified and the body is wrong, an error stands in place of the last piece: nobody ever holds a whole
/// wrong body.
pub type BlobStream = BoxStream<'static, Result<Bytes, StoreError>>;

impl<E: Engine> Cas<E> {
    /// Reads an object of any size, in little memory. Each piece is one ranged request, made when it is asked for.
    pub async fn stream(&self, universe: UniverseId, hash: Hash, verify: Verify) -> Result<BlobStream, StoreError> {
        let meta = self.find(universe, hash).await?.ok_or(BlobError::NotFound(hash))?;
        let hasher = self.draws(verify).then(Hasher::new);
        let reading = Reading { blobs: self.clone(), universe, hash, meta, offset: 0, hasher };
        Ok(stream::try_unfold(reading, Reading::next).boxed())
    }
}

struct Reading<E> {
    blobs: Cas<E>,
    universe: UniverseId,
    hash: Hash,
    meta: CasMeta,
    offset: u64,
    hasher: Option<Hasher>,
}

impl<E: Engine> Reading<E> {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        if self.offset == self.meta.size {
            return Ok(None);
        }
        let end = self.meta.size.min(self.offset + limits::BLOB_PART_BYTES as u64);
        let piece = self.blobs.part(self.universe, self.hash, &self.meta, self.offset..end).await?;
        self.offset = end;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
        }
        if self.offset == self.meta.size
            && let Some(hasher) = self.hasher.take()
            && hasher.finish() != self.hash
        {
            return Err(wrong_hash(self.hash).into());
        }
        Ok(Some((piece, self)))
    }
}
