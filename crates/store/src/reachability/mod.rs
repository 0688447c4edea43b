//! Which objects of the content store are still referred to, and what becomes of the others.

mod refs;

pub(crate) use refs::{payload as refs_of_payload, refs_of_note};
pub use refs::{refs_of_item, refs_of_record};

use mundi_model::{Code, Coded};

/// Why nothing was swept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    #[error("a grace period of {grace_ms} ms is less than {min_ms} ms")]
    GraceTooShort { grace_ms: u64, min_ms: u64 },
    #[error("a world was deleted during the walk; run it again")]
    Raced,
}

impl Coded for SweepError {
    fn code(&self) -> Code {
        match self {
            Self::GraceTooShort { .. } => Code::SweepRefused,
            Self::Raced => Code::SweepRaced,
        }
    }
}
