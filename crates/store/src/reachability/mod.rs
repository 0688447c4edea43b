//! Which objects of the content store are still referred to, and what becomes of the others.
//!
//! [`walk`] gathers what worlds, snapshots, pins, queues and segments refer to, follows the references between objects,
//! and reports the rest. It changes nothing. [`sweep`] removes the rest, in two visits: the first condemns an object, a
//! later one, at least a grace period after, removes it if a new walk still finds no reference and nobody put it again.

mod dead_segments;
mod leftovers;
mod order;
mod refs;
mod roots;
mod scan;
mod sweep;
mod walk;

pub use refs::{hashes_in, refs_of_item, refs_of_record};
pub use sweep::{GRACE_MIN, SweepReport, sweep};
pub use walk::{Unreachable, WalkReport, walk};

use mundi_model::{Code, Coded};

/// Why nothing was swept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    #[error("a grace period of {grace_ms} ms is less than {min_ms} ms")]
    GraceTooShort { grace_ms: u128, min_ms: u128 },
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

#[cfg(test)]
mod tests;
