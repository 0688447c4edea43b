//! Why a bundle is refused.

use crate::{RuntimeError, error::NamesMissing};
use mundi_kernel::{LoadError, replay::ReplayError, snapshot::SnapshotError, verify::VerifyError};
use mundi_model::{Code, Coded, Hash, Height};

#[derive(Debug, Clone, thiserror::Error)]
pub enum BundleError {
    #[error("the file cannot be read at offset {offset}: {cause}")]
    Unreadable { offset: u64, cause: String },
    #[error("the frame at offset {offset} is wrong: {what}")]
    Frame { offset: u64, what: String },
    #[error("the records from height {first} to {last} are wrong (frame at offset {offset}): {what}")]
    Records { first: Height, last: Height, offset: u64, what: String },
    #[error("the record at height {height} is wrong: {what}")]
    Record { height: Height, what: String },
    #[error("the snapshot at height {height} is not whole: {hash} is not in the bundle")]
    Incomplete { height: Height, hash: Hash },
    #[error("the history does not prove itself: {0}")]
    Unproven(VerifyError),
    #[error("from the baseline at height {baseline} the history gives another world than from genesis")]
    BaselineDiverged { baseline: Height },
    #[error("the object {hash} stands in it, and nothing refers to it")]
    Unreferred { hash: Hash },
    #[error("the object {hash} does not say that it refers to {needed}, which the snapshot at height {height} needs")]
    RefMissing { height: Height, hash: Hash, needed: Hash },
    #[error("at offset {offset} it would expand to {expanded} bytes; {max} are the most for a file of this size")]
    Expands { offset: u64, expanded: u64, max: u64 },
    #[error("it is a bundle of format {found}; this program reads {known}")]
    Format { found: u8, known: u8 },
}

impl Coded for BundleError {
    fn code(&self) -> Code {
        match self {
            Self::Unproven(error) if error.code() == Code::ProgramUnknown => Code::ProgramUnknown,
            Self::Expands { .. } => Code::BundleTooLarge,
            _ => Code::BundleInvalid,
        }
    }
}

impl BundleError {
    /// The first height that is wrong, where there is one.
    pub fn height(&self) -> Option<Height> {
        match self {
            Self::Records { first: height, .. }
            | Self::Record { height, .. }
            | Self::Incomplete { height, .. }
            | Self::RefMissing { height, .. }
            | Self::BaselineDiverged { baseline: height } => Some(*height),
            Self::Unproven(error) => height_of(error),
            Self::Unreadable { .. }
            | Self::Frame { .. }
            | Self::Unreferred { .. }
            | Self::Expands { .. }
            | Self::Format { .. } => None,
        }
    }
}

fn height_of(error: &VerifyError) -> Option<Height> {
    match error {
        VerifyError::Replay(
            ReplayError::Broken { height, .. } | ReplayError::Diverged { height, .. } | ReplayError::MidStep(height),
        )
        | VerifyError::SnapshotDiverged { height, .. }
        | VerifyError::NoteDiverged { height, .. }
        | VerifyError::NoteUnknown { height, .. }
        | VerifyError::SnapshotBeyond { height, .. } => Some(*height),
        VerifyError::Replay(ReplayError::Load(_) | ReplayError::Manifest(_)) | VerifyError::Snapshot(_) => None,
    }
}

impl From<VerifyError> for BundleError {
    fn from(error: VerifyError) -> Self {
        Self::Unproven(error)
    }
}

impl From<SnapshotError> for BundleError {
    fn from(error: SnapshotError) -> Self {
        Self::Unproven(error.into())
    }
}

impl From<LoadError> for BundleError {
    fn from(error: LoadError) -> Self {
        Self::Unproven(error.into())
    }
}

impl From<BundleError> for RuntimeError {
    fn from(error: BundleError) -> Self {
        Self::Bundle(Box::new(error))
    }
}

impl NamesMissing for VerifyError {
    fn missing(&self) -> Option<Hash> {
        match self {
            Self::Replay(error) => error.missing(),
            Self::Snapshot(error) => error.missing(),
            Self::SnapshotDiverged { .. }
            | Self::NoteDiverged { .. }
            | Self::NoteUnknown { .. }
            | Self::SnapshotBeyond { .. } => None,
        }
    }
}
