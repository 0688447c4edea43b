//! Errors of protocols, by subject.

use crate::keyspace::{
    effect_place::EffectPlace,
    queue::{Queue, QueueSeq},
    schema_version::SchemaVersion,
};
use mundi_model::{
    Code, Coded, Epoch, Height, InboxSeq, IntentHash, LabelError, UniverseId, WorkerId, WorldId, limits,
};
use std::time::Duration;

/// Why a world or universe cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    #[error("there is no universe {0}")]
    UniverseNotFound(UniverseId),
    #[error("there is no world {world} in {universe}")]
    NotFound { universe: UniverseId, world: WorldId },
    #[error("{0} exists already, with another beginning")]
    Exists(WorldId),
    #[error("{0} was deleted, or is being deleted")]
    Deleted(WorldId),
    #[error("{0} is archived: it takes nothing in")]
    Archived(WorldId),
    #[error("{world} is on hold: {code} at height {height}; release it once the cause is gone")]
    OnHold { world: WorldId, code: String, height: Height },
    #[error("{world} has {children} forks or more, which share its history; delete them first")]
    HasForks { world: WorldId, children: usize },
    #[error("the name `{name}` is taken by {by}; choose another one")]
    NameTaken { name: String, by: WorldId },
    #[error("no name for `{0}` is free among those that are tried; choose one")]
    NamesSpent(String),
    #[error("the list does not continue there: give the `next` of the page before, with the same filters")]
    CursorInvalid,
    #[error(transparent)]
    Labels(#[from] LabelError),
    #[error("{world} cannot begin so: {reason}")]
    BeginningInvalid { world: WorldId, reason: &'static str },
}

impl Coded for WorldError {
    fn code(&self) -> Code {
        match self {
            Self::UniverseNotFound(_) => Code::UniverseNotFound,
            Self::NotFound { .. } => Code::WorldNotFound,
            Self::Exists(_) => Code::WorldExists,
            Self::Deleted(_) => Code::WorldDeleted,
            Self::Archived(_) => Code::WorldArchived,
            Self::OnHold { .. } => Code::WorldOnHold,
            Self::HasForks { .. } => Code::WorldHasForks,
            Self::NameTaken { .. } | Self::NamesSpent(_) => Code::WorldNameTaken,
            Self::CursorInvalid => Code::CursorInvalid,
            Self::Labels(error) => error.code(),
            Self::BeginningInvalid { .. } => Code::WorldBeginningInvalid,
        }
    }
}

/// A time that people read.
fn whole_ms(ns: u64) -> Duration {
    Duration::from_millis(ns / 1_000_000)
}

/// Why a lease was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    #[error("{world} is held by {holder} under {epoch:?} for another {:?}", whole_ms(*left_ns))]
    Held { world: WorldId, holder: WorkerId, epoch: Epoch, left_ns: u64 },
    #[error("{world} is assigned to {desired}")]
    AssignedElsewhere { world: WorldId, desired: WorkerId },
    #[error("{world} is requested by {by}, who gets it next, for another {:?}", whole_ms(*left_ns))]
    Requested { world: WorldId, by: WorkerId, left_ns: u64 },
    #[error(
        "{deaths} holders of {world} ended in their first cycle of it, one after another: it waits until its next one is alone in its process"
    )]
    OnProbation { world: WorldId, deaths: u32 },
}

impl LeaseError {
    /// When to try again, where that is known.
    pub fn left_ns(&self) -> Option<u64> {
        match self {
            Self::Held { left_ns, .. } | Self::Requested { left_ns, .. } => Some(*left_ns),
            Self::AssignedElsewhere { .. } | Self::OnProbation { .. } => None,
        }
    }
}

impl Coded for LeaseError {
    fn code(&self) -> Code {
        match self {
            Self::Held { .. } | Self::Requested { .. } => Code::LeaseHeld,
            Self::AssignedElsewhere { .. } => Code::LeaseAssignedElsewhere,
            Self::OnProbation { .. } => Code::WorldOnProbation,
        }
    }
}

/// Why the inbox refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    #[error("the inbox of {world} is full: {items} items, {bytes} bytes wait; back off")]
    Full { world: WorldId, items: u64, bytes: u64 },
    #[error("item {index} has {len} bytes, more than {max}")]
    ItemTooLarge { index: usize, len: usize, max: usize },
    #[error("a batch holds 1 to {max} items; this one has {items}")]
    BatchInvalid { items: usize, max: usize },
    #[error("a cursor only rises: it stands at {at:?} and would go to {to}")]
    CursorRegressed { at: Option<InboxSeq>, to: InboxSeq },
    #[error("the cursor stands at {actual:?}, not at {expected:?}: someone else moved it")]
    CursorMoved { expected: Option<InboxSeq>, actual: Option<InboxSeq> },
    #[error(
        "a turn of {world} has read its inbox up to {read:?} and not to the end; it may not move the cursor to {to}"
    )]
    Unread { world: WorldId, read: Option<InboxSeq>, to: InboxSeq },
    #[error("something was enqueued to {world} since its inbox was read to the end")]
    Grown { world: WorldId },
    #[error("{max} open effects send to {world} under this message id already; send again later")]
    SendersFull { world: WorldId, max: usize },
}

impl Coded for InboxError {
    fn code(&self) -> Code {
        match self {
            Self::Full { .. } => Code::InboxFull,
            Self::ItemTooLarge { .. } => Code::InboxItemTooLarge,
            Self::BatchInvalid { .. } => Code::BatchInvalid,
            Self::CursorRegressed { .. } => Code::CursorRegressed,
            Self::Unread { .. } => Code::TurnInvalid,
            Self::SendersFull { .. } => Code::MessageSendersFull,
            // A turn is notified, and is made again: nobody else does.
            Self::CursorMoved { .. } | Self::Grown { .. } => Code::CursorMoved,
        }
    }
}

/// Why a worker may not run on a universe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("{0} has no schema version, and this worker may not write one")]
    Missing(UniverseId),
    #[error("{universe} is written in {found:?}, this worker speaks {expected:?}")]
    Mismatch {
        universe: UniverseId,
        expected: SchemaVersion,
        /// `None` for a marker that cannot be read.
        found: Option<SchemaVersion>,
    },
}

impl Coded for SchemaError {
    fn code(&self) -> Code {
        match self {
            Self::Missing(_) => Code::SchemaMissing,
            Self::Mismatch { .. } => Code::SchemaMismatch,
        }
    }
}

/// Why the effect queue refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EffectError {
    #[error("the claim on {intent} of {world} is not held any more")]
    ClaimLost { world: WorldId, intent: IntentHash },
    #[error("there is no effect at {place}: it went on, or is over")]
    NotFound { place: EffectPlace },
    #[error(
        "no effect under way and no dead letter is {intent}, in the first {max} that could be it. One that is over is found with the \
         name of its world",
        max = limits::EFFECT_SEARCH_ITEMS_MAX
    )]
    IntentNotFound { intent: IntentHash },
    #[error("the effect {intent} of {world} has its receipt, or was withdrawn")]
    Closed { world: WorldId, intent: IntentHash },
}

impl Coded for EffectError {
    fn code(&self) -> Code {
        match self {
            Self::ClaimLost { .. } => Code::EffectClaimLost,
            Self::NotFound { .. } | Self::IntentNotFound { .. } => Code::EffectNotFound,
            Self::Closed { .. } => Code::ReceiptClosed,
        }
    }
}

/// Why a message cannot be finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    #[error("the claim of {worker} on message {seq:?} ran out, and someone else has it")]
    ClaimLost { worker: WorkerId, seq: QueueSeq },
}

impl Coded for MailError {
    fn code(&self) -> Code {
        Code::MailClaimLost
    }
}

/// Why a dead letter could not be brought back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadLetterError {
    #[error("there is no dead letter {}.{seq}", queue.name())]
    NotFound { queue: Queue, seq: QueueSeq },
    #[error("the dead letter {}.{seq} cannot be replayed: {reason}", queue.name())]
    Unusable { queue: Queue, seq: QueueSeq, reason: &'static str },
}

impl Coded for DeadLetterError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::DeadLetterNotFound,
            Self::Unusable { .. } => Code::DeadLetterUnusable,
        }
    }
}
