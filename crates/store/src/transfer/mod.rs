//! A universe as objects, so that it can move: from any engine and object store to any other.
//!
//! ```text
//! universe          name, id, the last stamp, how many parts: written last, so that half an export is none
//! keys/00000000 …   the keys and values of the universe, in order, a few megabytes each, with a checksum
//! objects/…         bodies and segments, under the names that they have
//! ```
//!
//! Nothing of the universe may run meanwhile: a part is read at a time, and all parts are compared with the engine once
//! more before the export is sealed. Both directions can be interrupted and resumed.
//!
//! Stamps are places in the order of commits of one engine. An engine that takes in a universe must continue above all of its
//! stamps, else what is sent to a world would arrive behind its cursor; that is checked here, and seen to by the engine's
//! owner.

mod export;
mod import;
mod part;

pub use export::export;
pub use import::{import, read_header};

use crate::{
    StoreError,
    objects::{Objects, ObjectsError, ReadError},
};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_engine::{CommitError, Engine, EngineError, RangeRead, Transaction};
use mundi_model::{Code, Coded, Stamp, UniverseId, limits};
use object_store::path::Path;

/// The version of this format.
pub const FORMAT: u32 = 1;

/// The header of an export.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    #[n(0)]
    pub format: u32,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub universe: UniverseId,
    /// Above every stamp in it.
    #[n(3)]
    pub stamp: Stamp,
    #[n(4)]
    pub parts: u64,
    #[n(5)]
    pub keys: u64,
    #[n(6)]
    pub objects: u64,
    #[n(7)]
    pub created_at_ns: u64,
}

impl Header {
    /// The version that the target's next commit must be above.
    pub fn version(&self) -> u64 {
        let bytes = self.stamp.as_bytes();
        u64::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }
}

/// How far it is, for whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Keys(u64),
    Objects(u64),
    /// Keys that were compared once more.
    Compared(u64),
}

/// Why a universe was not moved.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransferError {
    #[error("the export is not whole: {0}")]
    Invalid(String),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Coded for TransferError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::TransferInvalid,
            Self::Refused(_) => Code::TransferRefused,
            Self::Engine(error) => error.code(),
            Self::Commit(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Objects(error) => error.code(),
            Self::Read(_) => Code::ObjectsFailed,
        }
    }
}

fn header_path() -> Path {
    Path::from("universe")
}

fn part_path(number: u64) -> Path {
    Path::from(format!("keys/{number:08}"))
}

/// Where an object of the universe lies in an export.
fn object_path(path: &Path) -> Path {
    Path::from(format!("objects/{path}"))
}

/// All keys of a universe.
fn all_keys(universe: UniverseId) -> (Bytes, Bytes) {
    let read = RangeRead::prefix(universe.as_bytes(), 1);
    (read.start, read.end)
}

/// The next keys of a universe from one on, and whether there are more.
async fn page<E: Engine>(engine: &E, from: &Bytes, end: &Bytes) -> Result<(Items, bool), EngineError> {
    let read = RangeRead::new(from.clone(), end.clone(), limits::RANGE_ITEMS_MAX).snapshot();
    let page = engine.begin().await?.range(read).await?;
    Ok((page.items, page.more))
}

type Items = Vec<(Bytes, Bytes)>;

/// The smallest key above this one.
fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

/// Reads a whole object that may not be there.
async fn read_all(objects: &Objects, path: &Path) -> Result<Option<Bytes>, TransferError> {
    match objects.size(path).await? {
        Some(size) => Ok(Some(objects.range(path, 0..size, size).await?)),
        None => Ok(None),
    }
}

/// Copies an object between stores, a piece at a time; one of the same size is there already.
async fn copy(from: &Objects, at: &Path, to: &Objects, into: &Path, size: u64) -> Result<(), TransferError> {
    if to.size(into).await? == Some(size) {
        return Ok(());
    }
    let piece = limits::BLOB_PART_BYTES as u64;
    if size <= piece {
        return Ok(to.put(into, from.range(at, 0..size, size).await?).await?);
    }
    let mut upload = to.upload(into).await?;
    let mut start = 0;
    while start < size {
        let end = size.min(start + piece);
        upload.part(from.range(at, start..end, size).await?).await?;
        start = end;
    }
    Ok(upload.complete().await?)
}
