//! Which objects of the content store are still referred to, and what becomes of the others.
//!
//! [`sweep`] gathers what worlds, snapshots, pins, queues and segments refer to, follows the references between objects, and
//! removes the rest, in two visits: the first condemns an object, a later one, at least a grace period after, removes it if a new
//! walk still finds no reference and nobody put it again. [`usage`] counts what is there.

mod dead_segments;
mod finish_deletions;
mod leftovers;
mod order;
mod pace;
mod refs;
mod roots;
mod scan;
mod sweep;
mod usage;
mod walk;
mod worlds;

use pace::Pace;
pub use pace::{GRACE_MIN, SweepConfig};
pub use refs::{hashes_in, refs_of_item, refs_of_record};
pub use sweep::{SweepReport, Swept, sweep};
pub use usage::{Amount, Usage, usage};
pub use walk::{Unreachable, WalkReport};

use mundi_model::{Code, Coded};

/// Why nothing was swept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    #[error("a grace period of {grace_ms} ms is less than {min_ms} ms")]
    GraceTooShort { grace_ms: u128, min_ms: u128 },
    #[error("another process took the sweep up, or a deletion cancelled it")]
    Superseded,
}

impl Coded for SweepError {
    fn code(&self) -> Code {
        match self {
            Self::GraceTooShort { .. } => Code::SweepRefused,
            Self::Superseded => Code::SweepRaced,
        }
    }
}

#[cfg(test)]
mod tests;
