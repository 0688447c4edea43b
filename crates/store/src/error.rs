//! The one error type of the crate. Causes are typed where they arise and fold into it; what a caller acts
//! on is the stable code, and the kind that it belongs to.

use crate::{
    Fenced,
    blobs::BlobError,
    journal::JournalError,
    keyspace::Family,
    protocol::{
        ChildError, DeadLetterError, EffectError, InboxError, LeaseError, MailError, PoolError, ProgramError,
        SchemaError, WorldError,
    },
    reachability::SweepError,
    segments::SegmentError,
    snapshot::SnapshotError,
};
use mundi_engine::{CommitError, EngineError};
use mundi_model::{Code, Coded, Hash};

/// Why a protocol was refused, or could not be carried out. Nothing was changed, except where a commit's
/// result is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Fenced(#[from] Fenced),
    #[error(transparent)]
    Damaged(#[from] Damaged),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Inbox(#[from] InboxError),
    #[error(transparent)]
    Effect(#[from] EffectError),
    #[error(transparent)]
    DeadLetter(#[from] DeadLetterError),
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

impl Coded for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::Engine(error) => error.code(),
            Self::Commit(error) => error.code(),
            Self::Fenced(error) => error.code(),
            Self::Damaged(error) => error.code(),
            Self::World(error) => error.code(),
            Self::Lease(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Mail(error) => error.code(),
            Self::Journal(error) => error.code(),
            Self::Inbox(error) => error.code(),
            Self::Effect(error) => error.code(),
            Self::DeadLetter(error) => error.code(),
            Self::Child(error) => error.code(),
            Self::Pool(error) => error.code(),
            Self::Program(error) => error.code(),
            Self::Snapshot(error) => error.code(),
            Self::Blob(error) => error.code(),
            Self::Segment(error) => error.code(),
            Self::Sweep(error) => error.code(),
        }
    }
}

/// An object of a universe that was found missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamagedObject {
    Blob(Hash),
    /// By its path in the object store.
    Segment(String),
}

impl StoreError {
    /// The object that could not be read, if that is what is wrong: whether it is really damaged, another read of it shows.
    pub fn damaged_object(&self) -> Option<DamagedObject> {
        match self {
            Self::Blob(BlobError::Corrupt { hash, .. } | BlobError::NotFound(hash)) => Some(DamagedObject::Blob(*hash)),
            Self::Segment(SegmentError::Corrupt { object, .. }) => Some(DamagedObject::Segment(object.clone())),
            _ => None,
        }
    }
}

/// The value of a key is not of the type that its family stores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged {} at key {key}: {cause}", family.as_str())]
pub struct Damaged {
    pub family: Family,
    /// In hex.
    pub key: String,
    pub cause: String,
}

impl Damaged {
    pub(crate) fn new(family: Family, key: &[u8], cause: String) -> Self {
        Self { family, key: key.iter().map(|byte| format!("{byte:02x}")).collect(), cause }
    }
}

impl Coded for Damaged {
    fn code(&self) -> Code {
        Code::StoreCorrupt
    }
}
