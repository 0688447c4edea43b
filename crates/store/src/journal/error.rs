//! Faults of a batch, and faults of a journal.

use mundi_model::{Code, Coded, Hash, Height, IntentHash, WorldId};

/// Why records were not appended, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("the head is {actual}, not {expected}: someone else appended")]
    HeadAdvanced { expected: Height, actual: Height },
    #[error("a batch holds 1 to {max} records; this one has {records}")]
    BatchInvalid { records: usize, max: usize },
    #[error("the record at place {place} of the batch says {found}; it follows {expected}")]
    HeightInvalid { place: usize, expected: Height, found: Height },
    #[error("the record at {height} names {found} as its predecessor, but that is {expected}")]
    ChainBroken { height: Height, expected: Hash, found: Hash },
    #[error("the record at {height} has {len} bytes, more than {max}; put its payload into a blob")]
    RecordTooLarge { height: Height, len: usize, max: usize },
    #[error("the record at {height} is a {what}: only its own protocol writes one")]
    RecordReserved { height: Height, what: &'static str },
    #[error("{world} has no record at {height}, although its head is {head}")]
    Gap { world: WorldId, height: Height, head: Height },
    #[error("the record of {world} at {height} is not what was appended: {cause}")]
    RecordDamaged { world: WorldId, height: Height, cause: String },
    #[error("{world} is more than {max} forks deep")]
    LineageTooDeep { world: WorldId, max: usize },
    #[error("the turn publishes {intent}, which no record of it announces at {height}")]
    IntentNotJournaled { intent: IntentHash, height: Height },
    #[error("the journal of {world} has no height {height}: it spans {first} to {head}")]
    OutOfRange { world: WorldId, height: Height, first: Height, head: Height },
}

impl Coded for JournalError {
    fn code(&self) -> Code {
        match self {
            Self::HeadAdvanced { .. } => Code::HeadAdvanced,
            Self::BatchInvalid { .. } => Code::BatchInvalid,
            Self::HeightInvalid { .. } | Self::ChainBroken { .. } => Code::ChainInvalid,
            Self::RecordTooLarge { .. } => Code::RecordTooLarge,
            Self::RecordReserved { .. } => Code::RecordReserved,
            Self::Gap { .. } => Code::JournalGap,
            Self::RecordDamaged { .. } => Code::JournalCorrupt,
            Self::LineageTooDeep { .. } => Code::LineageTooDeep,
            Self::IntentNotJournaled { .. } => Code::IntentNotJournaled,
            Self::OutOfRange { .. } => Code::HeightOutOfRange,
        }
    }
}
