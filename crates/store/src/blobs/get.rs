//! Reading an object: whole, in ranges, or just whether it is there.

use super::{BlobError, Cas, body_path};
use crate::{
    StoreError,
    keyspace::cas_meta::{self, Body, CasMeta},
    objects::ReadError,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId, limits};
use std::ops::Range;

/// Whether a read hashes what it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// One read in so many, as the configuration says.
    Sampled,
    Always,
}

impl<E: Engine> Cas<E> {
    /// The size of an object, or `None` if it is not there. The body is not looked at.
    pub async fn size(&self, universe: UniverseId, hash: Hash) -> Result<Option<u64>, StoreError> {
        Ok(self.find(universe, hash).await?.map(|meta| meta.size))
    }

    pub async fn has(&self, universe: UniverseId, hash: Hash) -> Result<bool, StoreError> {
        Ok(self.find(universe, hash).await?.is_some())
    }

    /// The bytes of an object of at most [`limits::BLOB_WHOLE_BYTES_MAX`].
    pub async fn get(&self, universe: UniverseId, hash: Hash, verify: Verify) -> Result<Bytes, StoreError> {
        let meta = self.find(universe, hash).await?.ok_or(BlobError::NotFound(hash))?;
        let bytes = self.part(universe, hash, &meta, 0..meta.size).await?;
        if self.draws(verify) && Hash::of(&bytes) != hash {
            return Err(wrong_hash(hash).into());
        }
        Ok(bytes)
    }

    /// A part of an object. It cannot be verified without the rest of it; only its length is.
    pub async fn range(&self, universe: UniverseId, hash: Hash, range: Range<u64>) -> Result<Bytes, StoreError> {
        let meta = self.find(universe, hash).await?.ok_or(BlobError::NotFound(hash))?;
        if range.start > range.end || range.end > meta.size {
            return Err(BlobError::RangeInvalid { hash, size: meta.size, range }.into());
        }
        self.part(universe, hash, &meta, range).await
    }

    pub(super) async fn find(&self, universe: UniverseId, hash: Hash) -> Result<Option<CasMeta>, StoreError> {
        let mut tx = self.engine.begin().await?;
        cas_meta::read_snapshot(&mut tx, universe, hash).await
    }

    pub(super) async fn part(
        &self,
        universe: UniverseId,
        hash: Hash,
        meta: &CasMeta,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let size = range.end - range.start;
        if size > limits::BLOB_WHOLE_BYTES_MAX {
            return Err(BlobError::TooLarge { size, max: limits::BLOB_WHOLE_BYTES_MAX }.into());
        }
        let generation = match &meta.body {
            Body::Inline(bytes) => return Ok(inline_part(hash, meta.size, bytes, range)?),
            Body::Object(generation) => *generation,
        };
        let read = self.objects.range(&body_path(universe, hash, generation), range, meta.size).await;
        let what = match read {
            Ok(bytes) => return Ok(bytes),
            Err(ReadError::Failed(error)) => return Err(BlobError::from(error).into()),
            Err(damage) => damage.to_string(),
        };
        // A sweep may have come between metadata and body: then the object is gone, and not damaged.
        match self.find(universe, hash).await? {
            Some(now) if now.body == meta.body => Err(BlobError::Corrupt { hash, what }.into()),
            _ => Err(BlobError::NotFound(hash).into()),
        }
    }

    pub(super) fn draws(&self, verify: Verify) -> bool {
        let one_in = match verify {
            Verify::Always => return true,
            Verify::Sampled if self.config.verify_one_in == 0 => return false,
            Verify::Sampled => self.config.verify_one_in,
        };
        let mut number = [0; 4];
        self.entropy.fill(&mut number);
        u32::from_be_bytes(number).is_multiple_of(one_in)
    }
}

fn inline_part(hash: Hash, size: u64, bytes: &[u8], range: Range<u64>) -> Result<Bytes, BlobError> {
    let part = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    let part = part.filter(|_| bytes.len() as u64 == size).and_then(|(start, end)| bytes.get(start..end));
    let wrong = || BlobError::Corrupt { hash, what: format!("it has {} bytes instead of {size}", bytes.len()) };
    part.map(Bytes::copy_from_slice).ok_or_else(wrong)
}

pub(super) fn wrong_hash(hash: Hash) -> BlobError {
    BlobError::Corrupt { hash, what: "its body has another hash".into() }
}
