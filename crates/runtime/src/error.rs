//! The one error type of the crate. What a caller acts on is the stable code and its kind.

use crate::{bundle::BundleError, control::DivergingFunction, effects::recording::Diverged};
use mundi_kernel::{
    LoadError, QueryError,
    fork::ForkError,
    manifest::{CheckError, ManifestError},
    rehearse::RehearseError,
    replay::ReplayError,
    snapshot::SnapshotError as KernelSnapshotError,
    turn::TurnError,
    verify::VerifyError,
};
use mundi_model::{Code, Coded, Hash, Height, InboxSeq, Kind, WorkerId, WorldId, answers::AnswersError, limits};
use mundi_store::{
    DamagedObject, StoreError,
    journal::JournalError,
    protocol::{ChildError, InboxError, LeaseError, WorldError},
    snapshot::SnapshotError,
};
use std::time::Duration;

/// Why a role could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Turn(#[from] TurnError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Snapshot(#[from] KernelSnapshotError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Fork(#[from] ForkError),
    #[error("{0}")]
    ForkDiverged(Box<Diverged>),
    #[error(transparent)]
    Answers(#[from] AnswersError),
    /// The world must be dropped from memory and restored.
    #[error("{world} is at {journal} in the journal and at {memory} in memory")]
    MemoryStale { world: WorldId, journal: Height, memory: Height },
    #[error("{world} needs the object {hash}, which is not in the content store")]
    ObjectLost { world: WorldId, hash: Hash },
    #[error(
        "at height {height} {world} is in the middle of what follows from a step: the nearest heights that end one are \
         {below} and {above}"
    )]
    MidStep { world: WorldId, height: Height, below: Height, above: Height },
    /// A branch shares at least the first record.
    #[error("{world} cannot be forked at {height}: a branch of it begins at one of the heights {first} to {head}")]
    ForkOutside { world: WorldId, height: Height, first: Height, head: Height },
    #[error("{holder} holds {world} and did not do what was asked within {:?}; it may still: ask again", Duration::from_millis(*waited_ms))]
    HolderSilent { world: WorldId, holder: WorkerId, waited_ms: u64 },
    #[error("{0} is assigned to no worker, and this one waits until it is")]
    Unassigned(WorldId),
    #[error(
        "{worker} does not take {world}: it runs {worlds_max} worlds that have something to do, which is as many as it may"
    )]
    WorkerFull { world: WorldId, worker: WorkerId, worlds_max: u32 },
    #[error(
        "{deaths} processes, one after another, ended in their first cycle of {world}: perhaps one of its inputs ends them"
    )]
    EndsProcess { world: WorldId, deaths: u32 },
    #[error(
        "the query `{query}` of {world} failed {failures} times in a row, last with {last}: it is tried again in {:?}",
        Duration::from_millis(*left_ms)
    )]
    QueryHeldBack { world: WorldId, query: String, failures: u32, last: Code, left_ms: u64 },
    #[error("{0}")]
    Cancelled(&'static str),
    #[error(transparent)]
    Bundle(Box<BundleError>),
    #[error(transparent)]
    Verify(Box<VerifyError>),
    #[error(transparent)]
    Rehearse(#[from] RehearseError),
    #[error("from its baseline at height {baseline}, {world} is another world than from genesis")]
    BaselineDiverged { world: WorldId, baseline: Height },
    #[error(
        "at height {height} the new program comes to another outcome than {world} has on record{}",
        named(functions)
    )]
    UpgradeDiverges { world: WorldId, height: Height, functions: Vec<DivergingFunction> },
    #[error(transparent)]
    Event(CheckError),
    #[error("the {what} {hash} is not registered in this universe: someone who may administer it does that")]
    NotRegistered { what: &'static str, hash: Hash },
    #[error("{0} is not on hold at any input: there is nothing to retry or to skip")]
    NotOnHold(WorldId),
    #[error("no reply to {call} of {world} within {:?}; it may still come", about(*waited_ms))]
    CallTimeout { world: WorldId, call: InboxSeq, waited_ms: u64 },
    #[error(
        "no answer of {world} within {:?}, and whether the call was made is not known; under the same idempotency key it is made once",
        Duration::from_millis(*waited_ms)
    )]
    CallUnanswered { world: WorldId, waited_ms: u64 },
    #[error("commands of a pool are sent to `/v1/u/{{universe}}/pools/{{pool}}/…`")]
    PoolCommand,
    /// A pool took a command in, and its step failed.
    #[error("{reason}")]
    CommandFailed { code: Code, reason: String },
}

/// Instances of durable functions, as far as a text may name them.
fn named(functions: &[DivergingFunction]) -> String {
    if functions.is_empty() {
        return String::new();
    }
    let shown = functions.iter().take(limits::FUNCTIONS_NAMED_MAX).map(DivergingFunction::to_string);
    let shown: Vec<_> = shown.collect();
    let more = match functions.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!("; and {more} more, which a rehearsal names"),
    };
    format!(": {} instances of durable functions would diverge: {}{more}", functions.len(), shown.join("; "))
}

/// A wait for people: whole seconds, once there is one.
fn about(ms: u64) -> Duration {
    Duration::from_millis(if ms < 1_000 { ms } else { (ms + 500) / 1_000 * 1_000 })
}

impl Coded for RuntimeError {
    fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Turn(error) => error.code(),
            Self::Replay(error) => error.code(),
            Self::Snapshot(error) => error.code(),
            Self::Manifest(error) => error.code(),
            Self::Load(error) => error.code(),
            Self::Query(error) => error.code(),
            Self::Fork(error) => error.code(),
            Self::ForkDiverged(_) => Code::ForkDiverged,
            Self::Answers(error) => error.code(),
            Self::MemoryStale { .. } => Code::MemoryStale,
            Self::ObjectLost { .. } => Code::ObjectMissing,
            Self::MidStep { .. } | Self::ForkOutside { .. } => Code::ForkInvalid,
            Self::HolderSilent { .. } => Code::LeaseHeld,
            Self::Unassigned(_) => Code::WorldUnassigned,
            Self::WorkerFull { .. } => Code::WorkerFull,
            Self::EndsProcess { .. } => Code::WorldEndsProcess,
            Self::QueryHeldBack { .. } => Code::QueryHeldBack,
            Self::Cancelled(_) => Code::RequestTimeout,
            Self::Bundle(error) => error.code(),
            Self::Verify(error) => error.code(),
            Self::Rehearse(error) => error.code(),
            Self::BaselineDiverged { .. } => Code::ReplayDiverged,
            Self::UpgradeDiverges { .. } => Code::UpgradeDiverges,
            Self::NotRegistered { .. } => Code::ManifestNotRegistered,
            Self::Event(error) => error.code_or(Code::EventInvalid),
            Self::CallTimeout { .. } | Self::CallUnanswered { .. } => Code::CallTimeout,
            Self::PoolCommand => Code::TokenDenied,
            Self::CommandFailed { code, .. } => *code,
            Self::NotOnHold(_) => Code::WorldNotOnHold,
        }
    }
}

impl RuntimeError {
    /// Whether the same attempt may go better in a moment: then a role waits, and never ends.
    pub fn is_transient(&self) -> bool {
        !self.is_violation() && matches!(self.code().kind(), Kind::Conflict | Kind::Unavailable | Kind::Full)
    }

    /// Whether the children of a world contradict each other: every other attempt finds the same, on every node.
    fn is_violation(&self) -> bool {
        matches!(self, Self::Store(StoreError::Child(ChildError::Violation { .. })))
    }

    /// Whether the cause lies in the world itself, so that the same attempt fails again, wherever it is made. What another node
    /// may do better, and what befalls all worlds together, is no reason to give one up.
    pub fn is_of_the_world(&self) -> bool {
        let code = self.code();
        match code.kind() {
            _ if self.is_violation() => true,
            Kind::Corrupt => code != Code::EngineCorrupt,
            Kind::Invalid => !matches!(
                code,
                Code::ObjectsDenied
                    | Code::ObjectsUrlInvalid
                    | Code::DatabaseInvalid
                    | Code::DatabaseVersion
                    | Code::DatabaseVersionBehind
                    | Code::SchemaMismatch
                    | Code::TransactionClosed
            ),
            Kind::NotFound => {
                matches!(code, Code::ObjectMissing | Code::BlobNotFound | Code::ProgramUnknown | Code::SnapshotNotFound)
            }
            Kind::Unavailable => code == Code::StepAbandoned,
            Kind::Full => code == Code::LineageTooDeep,
            Kind::Conflict | Kind::Fenced => false,
        }
    }

    /// The object that could not be read, if that is what is wrong. By itself this is of no world: another read shows whether it is.
    pub(crate) fn damaged_object(&self) -> Option<DamagedObject> {
        match self {
            Self::Store(error) => error.damaged_object(),
            Self::ObjectLost { hash, .. } => Some(DamagedObject::Blob(*hash)),
            _ => None,
        }
    }

    /// How many attempts may fail in a row with this, if it is of the world, before the world is put on hold.
    pub fn attempts_max(&self) -> u32 {
        match self {
            Self::ForkDiverged(_) => limits::DIVERGED_ATTEMPTS_MAX,
            Self::EndsProcess { .. } => 1,
            _ if self.is_violation() => 1,
            _ => limits::WORLD_FAILURES_MAX,
        }
    }

    /// How many processes the world ended, if that is what is wrong.
    pub(crate) fn deaths(&self) -> u32 {
        match self {
            Self::EndsProcess { deaths, .. } => *deaths,
            _ => 0,
        }
    }

    pub fn is_fenced(&self) -> bool {
        self.code().kind() == Kind::Fenced
    }
}

impl From<CheckError> for RuntimeError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Crowded(crowded) => LoadError::from(crowded).into(),
            error => Self::Event(error),
        }
    }
}

impl From<VerifyError> for RuntimeError {
    fn from(error: VerifyError) -> Self {
        Self::Verify(Box::new(error))
    }
}

macro_rules! through_store {
    ($($error:ty),*) => {$(
        impl From<$error> for RuntimeError {
            fn from(error: $error) -> Self {
                Self::Store(error.into())
            }
        }
    )*};
}
through_store!(JournalError, SnapshotError, InboxError, LeaseError, WorldError, mundi_engine::EngineError);

/// An error that may only mean that an object was not in memory.
pub(crate) trait NamesMissing {
    fn missing(&self) -> Option<Hash>;
}

impl NamesMissing for LoadError {
    fn missing(&self) -> Option<Hash> {
        match self {
            Self::Missing(hash) => Some(*hash),
            Self::Preparing(_) | Self::Abandoned { .. } | Self::Corrupt { .. } => None,
        }
    }
}

macro_rules! names_missing {
    ($($error:ty: $($variant:ident),*;)*) => {$(
        impl NamesMissing for $error {
            fn missing(&self) -> Option<Hash> {
                match self {
                    $(Self::$variant(error) => error.missing(),)*
                    _ => None,
                }
            }
        }
    )*};
}

names_missing! {
    ManifestError: Load;
    KernelSnapshotError: Manifest;
    TurnError: Load, Snapshot;
    ReplayError: Load, Manifest;
    QueryError: Load;
}

impl NamesMissing for RehearseError {
    fn missing(&self) -> Option<Hash> {
        match self {
            Self::Snapshot(error) => error.missing(),
            Self::Manifest(error) => error.missing(),
            Self::Replay(error) => error.missing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is room for a step depends on its neighbours; whether it holds up a node that has room, on itself.
    #[test]
    fn a_node_without_room_is_no_reason_to_put_a_world_on_hold() {
        let of = |code| RuntimeError::from(LoadError::Abandoned { code, why: "why".to_owned() }).is_of_the_world();
        assert!(of(Code::StepAbandoned) && !of(Code::StepCrowded));
    }
}
