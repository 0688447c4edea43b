//! Child runs: ids, phases, dispatch tokens, budget lanes and the events that are their evidence.
//!
//! A child is a run that a parent world dispatches and does not replay. Its lifecycle is on record, its inside is not.

mod budget;
mod event;
pub mod evidence;
pub mod replay;
mod spec;

pub use budget::{ACCOUNTING_MODE, Lane, Spend};
pub use event::{ChildEvent, EVENT_SCHEMA, EventKind, TOKEN_SCHEMA, parent_stream, stream};
pub use spec::{ChildSpec, SpecInvalid, spec_params};

use crate::{
    Hash, Height, InboxSeq, IntentHash, ParseIdError, WorkerId, WorldId, cbor,
    ids::id128,
    mutants::{Mutant, planted},
    record::Payload,
    text::{base32_128, cbor_as_bytes, parse_base32_128, serde_as_text},
};
use minicbor::{Decode, Encode};
use std::{fmt, str::FromStr};

/// The kind of the intent that spawns a child. Its one receipt is the end of the child.
pub const CHILD_SPAWN: &str = "child.spawn";
/// The kind of the effect by which a parent cancels a child.
pub const CHILD_CANCEL: &str = "child.cancel";
/// The inbox of a parent that is told when a child starts.
pub const CHILD_INBOX: &str = "child.started";
/// The kind of the effect by which a world that is a child says that it is done.
pub const CHILD_DONE: &str = "child.done";
/// The inbox of a world that is a child, for its first message.
pub const CHILD_RUN_INBOX: &str = "child.run";
/// The inbox of a world that is a child, which is told when the child was cancelled.
pub const CHILD_CANCELLED_INBOX: &str = "child.cancelled";
/// The kind of children that are worlds.
pub const KIND_WORLD: &str = "world";

id128!(
    /// One child of a world. It follows from the intent that spawned it, so a fork never shares one with its parent.
    ChildId, "c", "child id"
);
id128!(
    /// One dispatch of a child: the `worker_run_id`, which is also the `lease_id`. It follows from the parent and the `dispatch_seq`.
    RunId, "run", "worker run id"
);

impl ChildId {
    /// The child that an intent spawns.
    pub fn of_intent(intent: &IntentHash) -> Self {
        Self(first_half(&Hash::of_parts([&b"mundi.child.1\0"[..], intent.as_bytes()])))
    }

    /// The world that runs the child, if its kind is [`KIND_WORLD`].
    pub fn world(self) -> WorldId {
        WorldId::from_bytes(first_half(&Hash::of_parts([&b"mundi.child.world.1\0"[..], self.as_bytes()])))
    }
}

impl RunId {
    pub fn of_dispatch(parent: WorldId, dispatch_seq: u64) -> Self {
        Self(first_half(&Hash::of(&cbor::encode(&("mundi.child.run.1", parent, dispatch_seq)))))
    }

    /// The idempotency key of the run's n-th call to the outside. It never meets that of an effect of a world.
    pub fn call_key(self, n: u64) -> IntentHash {
        let run = if planted(Mutant::CallKeyShared) { Self([0; 16]) } else { self };
        IntentHash::from_bytes(*Hash::of(&cbor::encode(&("mundi.child.call.1", run, n))).as_bytes())
    }
}

fn first_half(hash: &Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    half
}

/// Where a child stands. A phase is only ever followed by a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Phase {
    /// It waits for its turn.
    #[n(0)]
    Queued,
    /// An executor has it and has not started it.
    #[n(1)]
    Leased,
    /// Its start is on record: the work may have begun.
    #[n(2)]
    Started,
    #[n(3)]
    Terminal,
}

impl Phase {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Started => "started",
            Self::Terminal => "terminal",
        }
    }

    /// Whether a start was observed: the token alone says so.
    pub const fn is_start_observed(self) -> bool {
        matches!(self, Self::Started | Self::Terminal)
    }
}

/// The dispatch token of a child: all that is decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DispatchToken {
    #[n(0)]
    pub child: ChildId,
    /// The `parent_session_id`.
    #[n(1)]
    pub parent: WorldId,
    /// The height of the record that spawned it.
    #[n(2)]
    pub parent_seq: Height,
    #[n(3)]
    pub intent: IntentHash,
    /// The parent's own name for it.
    #[n(4)]
    pub label: String,
    /// `process`, `world`, `agent`, or `external`.
    #[n(5)]
    pub kind: String,
    /// Parameters of the intent: kind, parameters of the kind, budget.
    #[n(6)]
    pub params: Payload,
    /// The limit of the child in each lane, in addition to its parent's limit.
    #[n(7)]
    pub budget: Spend,
    #[n(8)]
    pub queue_seq: u64,
    /// Absent until it is leased.
    #[n(9)]
    pub dispatch_seq: Option<u64>,
    /// The `worker_run_id`; absent until it is leased.
    #[n(10)]
    pub run: Option<RunId>,
    #[n(11)]
    pub phase: Phase,
    /// How many events its stream has.
    #[n(12)]
    pub events: u64,
    #[n(13)]
    pub cancel_request_id: Option<String>,
    /// Its intent is closed: the parent is not told how it ends.
    #[n(14)]
    pub withdrawn: bool,
    /// The sum of its debits.
    #[n(15)]
    pub spent: Spend,
    #[n(16)]
    pub spawned_at_ns: u64,
    #[n(17)]
    pub started_at_ns: Option<u64>,
    #[n(18)]
    pub end: Option<ChildEnd>,
    /// The manifest that was current when it was spawned.
    #[n(19)]
    pub manifest: Option<Hash>,
    #[n(20)]
    pub trace: Option<String>,
    #[n(21)]
    pub correlation_id: Option<String>,
    /// The call that the parent works for.
    #[n(22)]
    pub call: Option<InboxSeq>,
}

impl DispatchToken {
    /// The world that runs the child: of one of kind [`KIND_WORLD`] that has started.
    pub fn world(&self) -> Option<WorldId> {
        (self.kind == KIND_WORLD && self.started_at_ns.is_some()).then(|| self.child.world())
    }
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChildEnd {
    #[n(0)]
    pub outcome: ChildOutcome,
    #[n(1)]
    pub at_ns: u64,
    #[n(2)]
    pub code: Option<String>,
    #[n(3)]
    pub reason: Option<String>,
    /// The token of the lease whose executor ended it, if one did: a finish that is tried again recognizes itself.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    pub finished_by: Option<[u8; 16]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ChildOutcome {
    #[n(0)]
    Passed,
    #[n(1)]
    Failed,
    #[n(2)]
    Cancelled,
}

impl ChildOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The right of an executor to work on a child, until its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ChildLease {
    #[n(0)]
    pub worker: WorkerId,
    /// Drawn anew for each lease: an executor that was replaced does not have it.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub token: [u8; 16],
    /// Without an extension the lease is orphaned then. A child of kind `world` has none.
    #[n(2)]
    pub deadline_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_what_they_name() {
        let intent = IntentHash::from_bytes([7; 32]);
        assert_eq!(ChildId::of_intent(&intent), ChildId::of_intent(&intent));
        assert_ne!(ChildId::of_intent(&intent), ChildId::of_intent(&IntentHash::from_bytes([8; 32])));
        let (a, b) = (WorldId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        assert_eq!(RunId::of_dispatch(a, 1), RunId::of_dispatch(a, 1));
        assert_ne!(RunId::of_dispatch(a, 1), RunId::of_dispatch(a, 2));
        assert_ne!(RunId::of_dispatch(a, 1), RunId::of_dispatch(b, 1));
    }

    #[test]
    fn phases_are_ordered_and_only_two_mean_a_start() {
        let all = [Phase::Queued, Phase::Leased, Phase::Started, Phase::Terminal];
        assert!(all.is_sorted());
        assert_eq!(all.map(Phase::is_start_observed), [false, false, true, true]);
    }
}
