//! Segments: runs of old journal records, moved out of the engine into one object each.
//!
//! ```text
//! block 0 | block 1 | ... | footer | trailer
//! ```
//!
//! A block is one zstd frame over length-prefixed records. The footer names every block with its size and
//! SHA-256, and every hash that the records refer to. The trailer lets a person find the footer without
//! the engine. There is no header: every byte of the object is covered by the footer's checksums, and the
//! footer by the one that the engine keeps in the segment's index record. So a read fetches the footer and
//! the blocks it needs, and trusts nothing that does not match.

mod build;
mod compactor;
mod export;
mod format;
mod read;
mod store;

pub use build::{BuiltSegment, SegmentBuilder};
pub use compactor::{Compacted, Compactor, CompactorConfig};
pub use export::{Exported, export_segment};
pub use format::{Block, Footer, decode_block, decode_footer, object_path};
pub(crate) use format::{objects_prefix, world_of_path};
pub use read::SegmentReader;
pub use store::SegmentStore;

use crate::objects::{ObjectsError, ReadError};
use mundi_model::{Code, Coded, Height};

/// Faults of a segment.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SegmentError {
    #[error("the segment {object} is damaged: {what}")]
    Corrupt { object: String, what: String },
    #[error("records {start}..{end} may not be exported: {why}")]
    Unsafe { start: Height, end: Height, why: &'static str },
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl Coded for SegmentError {
    fn code(&self) -> Code {
        match self {
            Self::Corrupt { .. } => Code::SegmentCorrupt,
            Self::Unsafe { .. } => Code::SegmentUnsafe,
            Self::Objects(error) => error.code(),
        }
    }
}

impl From<ReadError> for SegmentError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing { path } => Self::Corrupt { object: path, what: "it is missing".into() },
            ReadError::WrongSize { path, expected, actual } => {
                Self::Corrupt { object: path, what: format!("it has {actual} bytes instead of {expected}") }
            }
            ReadError::Failed(error) => Self::Objects(error),
        }
    }
}

#[cfg(test)]
mod tests;
