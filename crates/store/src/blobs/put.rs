//! Putting an object that is in memory.

use super::{BlobError, Cas, body_path};
use crate::{
    StoreError,
    keyspace::cas_meta::Body,
    protocol::cas_put::{CasLookup, CasPut, Known, Outcome},
    run,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId, limits};
use object_store::path::Path;
use std::collections::BTreeSet;

/// A put meets a sweep of the same hash at most this often in a row; each needs a grace period.
const RACES_MAX: u32 = 4;

/// The source of a body.
pub(super) enum Source {
    Memory(Bytes),
    /// An object that was uploaded before its hash was known.
    Incoming(Path),
}

impl<E: Engine> Cas<E> {
    /// Stores bytes and what they refer to, and returns their hash. What is there already is left alone.
    pub async fn put(&self, universe: UniverseId, bytes: Bytes, refs: &BTreeSet<Hash>) -> Result<Hash, StoreError> {
        let hash = Hash::of(&bytes);
        self.put_hashed(universe, hash, bytes, refs).await?;
        Ok(hash)
    }

    /// As [`Self::put`], but refuses bytes that do not have the hash that the caller states.
    pub async fn put_expecting(
        &self,
        universe: UniverseId,
        stated: Hash,
        bytes: Bytes,
        refs: &BTreeSet<Hash>,
    ) -> Result<(), StoreError> {
        let actual = Hash::of(&bytes);
        if actual != stated {
            return Err(BlobError::HashMismatch { stated, actual }.into());
        }
        self.put_hashed(universe, actual, bytes, refs).await
    }

    pub(super) async fn put_hashed(
        &self,
        universe: UniverseId,
        hash: Hash,
        bytes: Bytes,
        refs: &BTreeSet<Hash>,
    ) -> Result<(), StoreError> {
        let size = bytes.len() as u64;
        if size > limits::BLOB_BYTES_MAX {
            return Err(BlobError::TooLarge { size, max: limits::BLOB_BYTES_MAX }.into());
        }
        if bytes.len() <= self.config.inline_bytes_max {
            self.register(universe, hash, size, Body::Inline(bytes.into()), refs).await?;
            return Ok(());
        }
        self.place_and_register(universe, hash, size, refs, &Source::Memory(bytes)).await
    }

    /// Body first, then metadata; once more, under another key, if a sweep came between the two.
    pub(super) async fn place_and_register(
        &self,
        universe: UniverseId,
        hash: Hash,
        size: u64,
        refs: &BTreeSet<Hash>,
        source: &Source,
    ) -> Result<(), StoreError> {
        for _ in 0..RACES_MAX {
            let body = match self.look_up(universe, hash).await? {
                Known::Stored(meta) => meta.body,
                Known::Absent(generation) => {
                    self.place(source, &body_path(universe, hash, generation)).await?;
                    Body::Object(generation)
                }
            };
            match self.register(universe, hash, size, body, refs).await? {
                Outcome::Stored | Outcome::AlreadyThere => return Ok(()),
                Outcome::Superseded => {}
            }
        }
        Err(BlobError::PutRaced(hash).into())
    }

    async fn place(&self, source: &Source, path: &Path) -> Result<(), BlobError> {
        match source {
            Source::Memory(bytes) => self.objects.put(path, bytes.clone()).await?,
            Source::Incoming(incoming) => self.objects.copy(incoming, path).await?,
        }
        Ok(())
    }

    pub(super) async fn look_up(&self, universe: UniverseId, hash: Hash) -> Result<Known, StoreError> {
        Ok(run(&self.engine, &*self.clock, &CasLookup { universe, hash }).await?.output)
    }

    pub(super) async fn register(
        &self,
        universe: UniverseId,
        hash: Hash,
        size: u64,
        body: Body,
        refs: &BTreeSet<Hash>,
    ) -> Result<Outcome, StoreError> {
        let put = CasPut { universe, hash, size, body, refs, now_ns: self.clock.now_ns() };
        Ok(run(&self.engine, &*self.clock, &put).await?.output)
    }
}
