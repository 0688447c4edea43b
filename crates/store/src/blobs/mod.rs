//! The content store: immutable objects named by their SHA-256, per universe.
//!
//! Small objects are stored in the engine, in the value of their metadata; larger ones in the object store, written before
//! the metadata that makes them exist. The server computes every hash itself. An object whose metadata is there and
//! whose body is not, or is another, is damage: a `BLOB_CORRUPT` that names the hash, never a silent repair.

mod get;
mod parts;
mod put;
mod put_stream;
mod sample;
mod seam;
mod stream;

pub use get::Verify;
pub use put_stream::PutStream;
pub use stream::BlobStream;

use crate::{
    Clock, Entropy,
    keyspace::cas_meta::Generation,
    objects::{Objects, ObjectsError},
};
use mundi_model::{Code, Coded, Hash, UniverseId, limits};
use object_store::path::Path;
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// A handle to the content store; cheap to clone.
#[derive(Clone)]
pub struct Cas<E> {
    pub(crate) engine: E,
    pub(crate) objects: Objects,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) config: CasConfig,
}

#[derive(Debug, Clone, Copy)]
pub struct CasConfig {
    /// Objects up to this size are stored in the engine; at most [`limits::BLOB_INLINE_BYTES_MAX`].
    pub inline_bytes_max: usize,
    /// One read in this many is verified when the caller does not insist; 0 for none.
    pub verify_one_in: u32,
}

impl Default for CasConfig {
    fn default() -> Self {
        Self { inline_bytes_max: limits::BLOB_INLINE_BYTES_MAX, verify_one_in: 16 }
    }
}

impl<E> Cas<E> {
    pub fn new(
        engine: E,
        objects: Objects,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        config: CasConfig,
    ) -> Self {
        let inline_bytes_max = config.inline_bytes_max.min(limits::BLOB_INLINE_BYTES_MAX);
        Self { engine, objects, clock, entropy, config: CasConfig { inline_bytes_max, ..config } }
    }

    /// The object store underneath, for segments.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }
}

/// No references, for objects that name no other.
pub const NO_REFS: &BTreeSet<Hash> = &BTreeSet::new();

/// Where a large body lies.
pub(crate) fn body_path(universe: UniverseId, hash: Hash, generation: Generation) -> Path {
    let plain = format!("cas/{universe}/sha256/{}", hash.to_hex());
    if generation == Generation::FIRST {
        return Path::from(plain);
    }
    Path::from(format!("{plain}.{}", generation.get()))
}

/// Where all large bodies of a universe lie.
pub(crate) fn bodies_prefix(universe: UniverseId) -> Path {
    Path::from(format!("cas/{universe}/sha256"))
}

/// Where bodies wait whose hash is not yet known.
pub(crate) fn incoming_prefix(universe: UniverseId) -> Path {
    Path::from(format!("cas/{universe}/incoming"))
}

/// Faults of the content store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BlobError {
    #[error("{0} is not in the content store")]
    NotFound(Hash),
    #[error("{hash} is damaged: {what}")]
    Corrupt { hash: Hash, what: String },
    #[error("the bytes have the hash {actual}, not {stated}")]
    HashMismatch { stated: Hash, actual: Hash },
    #[error("an object of {size} bytes exceeds {max}")]
    TooLarge { size: u64, max: u64 },
    #[error("{hash} has {size} bytes; {}..{} is not a part of it", range.start, range.end)]
    RangeInvalid { hash: Hash, size: u64, range: Range<u64> },
    #[error("{hash} refers to {missing}, which is not in the content store")]
    RefMissing { hash: Hash, missing: Hash },
    #[error("{hash} would refer to {refs} objects; at most {max} are listed", max = limits::BLOB_REFS_MAX)]
    RefsTooMany { hash: Hash, refs: usize },
    #[error("the source broke off after {read_bytes} bytes: {cause}")]
    SourceFailed { read_bytes: u64, cause: String },
    #[error("{0} was swept away while it was put")]
    PutRaced(Hash),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl Coded for BlobError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::BlobNotFound,
            Self::Corrupt { .. } => Code::BlobCorrupt,
            Self::HashMismatch { .. } => Code::BlobHashMismatch,
            Self::TooLarge { .. } => Code::BlobTooLarge,
            Self::RangeInvalid { .. } => Code::BlobRangeInvalid,
            Self::RefMissing { .. } => Code::BlobRefMissing,
            Self::RefsTooMany { .. } => Code::BlobRefsTooMany,
            Self::SourceFailed { .. } => Code::BlobSourceFailed,
            Self::PutRaced(_) => Code::BlobPutRaced,
            Self::Objects(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests;
