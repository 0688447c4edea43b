//! Errors of an engine, and the certainty about the commit that each leaves.

use mundi_model::{Code, Coded, limits};
use std::{path::PathBuf, sync::Arc};

/// Why an engine refused or failed. Nothing was applied by the call that returns it.
///
/// It is cloneable because one failed sync fails every transaction of its group.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    #[error("a key has 1 to {max} bytes and does not begin with 0xff; this one has {len} bytes and begins with {first:?}", max = limits::KEY_BYTES_MAX)]
    KeyInvalid { len: usize, first: Option<u8> },
    #[error("a value has at most {max} bytes; this one has {len}", max = limits::VALUE_BYTES_MAX)]
    ValueTooLarge { len: usize },
    #[error("a transaction holds at most {max} bytes in {operations} operations; cut the batch", max = limits::TRANSACTION_BYTES_MAX, operations = limits::TRANSACTION_OPERATIONS_MAX)]
    TransactionTooLarge,
    #[error("a range read takes 1 to {max} items; this one asks for {limit}", max = limits::RANGE_ITEMS_MAX)]
    RangeInvalid { limit: usize },
    #[error("the transaction is older than the engine keeps history; run it again")]
    TooOld,
    #[error("the engine is closed")]
    Closed,
    #[error("{what} is full at {max}; back off")]
    Busy { what: &'static str, max: usize },
    #[error("the disk is full: {0}")]
    DiskFull(Arc<std::io::Error>),
    #[error("{doing}: {cause}")]
    Failed { doing: String, cause: Arc<dyn std::error::Error + Send + Sync> },
    #[error("{} is open in another process", .0.display())]
    FolderInUse(PathBuf),
    #[error("{} {reason}", path.display())]
    FolderInvalid { path: PathBuf, reason: &'static str },
    #[error("{} has format {found}; this version reads format {expected}", path.display())]
    FolderVersion { path: PathBuf, found: String, expected: u32 },
    #[error("{}: permission denied", .0.display())]
    FolderDenied(PathBuf),
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Corrupt { path: PathBuf, offset: u64, what: String },
    #[error("the database cannot be used: {what}")]
    DatabaseInvalid { what: String },
    #[error("the database is not there, {doing}: {cause}")]
    DatabaseUnavailable { doing: String, cause: Arc<dyn std::error::Error + Send + Sync> },
    #[error("the tables in schema `{schema}` have version {found}; this program knows version {expected}")]
    DatabaseVersion { schema: String, found: i32, expected: i32 },
    #[error(
        "the cluster's version is {found}, below what the data in it has seen: new inputs would get places that were already read. Advance the cluster to {needed}"
    )]
    VersionBehind { found: u64, needed: u64 },
    #[error("the backup is not whole: {0}")]
    BackupInvalid(String),
    #[error("{doing}: {cause}")]
    BackupFailed { doing: &'static str, cause: Arc<dyn std::error::Error + Send + Sync> },
}

impl EngineError {
    pub(crate) fn failed(doing: impl Into<String>, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Failed { doing: doing.into(), cause: Arc::new(cause) }
    }
}

impl Coded for EngineError {
    fn code(&self) -> Code {
        match self {
            Self::KeyInvalid { .. } => Code::KeyInvalid,
            Self::ValueTooLarge { .. } => Code::ValueTooLarge,
            Self::TransactionTooLarge => Code::TransactionTooLarge,
            Self::RangeInvalid { .. } => Code::RangeInvalid,
            Self::TooOld => Code::TransactionTooOld,
            Self::Closed => Code::TransactionClosed,
            Self::Busy { .. } => Code::EngineBusy,
            Self::DiskFull(_) => Code::DiskFull,
            Self::Failed { .. } => Code::EngineFailed,
            Self::FolderInUse(_) => Code::FolderInUse,
            Self::FolderInvalid { .. } => Code::FolderInvalid,
            Self::FolderVersion { .. } => Code::FolderVersion,
            Self::FolderDenied(_) => Code::FolderDenied,
            Self::Corrupt { .. } => Code::EngineCorrupt,
            Self::DatabaseInvalid { .. } => Code::DatabaseInvalid,
            Self::DatabaseUnavailable { .. } => Code::DatabaseUnavailable,
            Self::DatabaseVersion { .. } => Code::DatabaseVersion,
            Self::VersionBehind { .. } => Code::DatabaseVersionBehind,
            Self::BackupInvalid(_) => Code::BackupInvalid,
            Self::BackupFailed { .. } => Code::BackupFailed,
        }
    }
}

/// The certainty about a commit that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Surely not applied: another transaction came first. Run again.
    #[error("another transaction came first")]
    Conflict,
    /// Perhaps applied. Only an idempotent protocol may run again.
    #[error("whether the commit was applied is not known: {0}")]
    Unknown(EngineError),
    /// Surely not applied: the engine itself refused or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Coded for CommitError {
    fn code(&self) -> Code {
        match self {
            Self::Conflict => Code::TransactionConflict,
            Self::Unknown(_) => Code::CommitUnknown,
            Self::Engine(error) => error.code(),
        }
    }
}
