//! The records of a world's journal, and the items of its inbox.
//!
//! A record is canonical CBOR and carries the hash of its predecessor: a journal is a hash chain. The
//! numbers in `#[n(..)]` are persisted; they are never reused (a test pins them by golden bytes).

mod input;

pub use input::{InboxItem, Input, Operator, Origin, Payload, Receipt, ReceiptStatus, Sender};

use crate::{Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId, cbor};
use minicbor::{Decode, Encode};

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Record {
    #[n(0)]
    pub height: Height,
    /// The hash of the record below; for the first record of a world, [`Record::CHAIN_START`].
    #[n(1)]
    pub prev: Hash,
    #[n(2)]
    pub body: Body,
}

impl Record {
    /// The predecessor that the first record of an unforked world names.
    pub const CHAIN_START: Hash = Hash::from_bytes([0; 32]);

    /// The canonical bytes, and the hash that the next record names.
    pub fn seal(&self) -> (Vec<u8>, Hash) {
        let bytes = cbor::encode(self);
        let hash = Hash::of(&bytes);
        (bytes, hash)
    }

    /// The record together with its canonical bytes and its hash.
    pub fn into_sealed(self) -> Sealed {
        let (bytes, hash) = self.seal();
        Sealed { record: self, bytes, hash }
    }
}

/// A record, its canonical bytes, and the hash that the next one names. They belong together: only a record makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    record: Record,
    bytes: Vec<u8>,
    hash: Hash,
}

impl Sealed {
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The body and the bytes.
    pub fn into_parts(self) -> (Body, Vec<u8>) {
        (self.record.body, self.bytes)
    }
}

/// As its bytes.
impl std::ops::Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[expect(clippy::large_enum_variant, reason = "most records take an item in: a box would be an allocation for each")]
pub enum Body {
    /// The world begins.
    #[n(0)]
    Genesis(#[n(0)] Genesis),
    /// The world begins as a branch of another one.
    #[n(1)]
    ForkGenesis(#[n(0)] ForkGenesis),
    /// An inbox item was taken in; the program's step follows from it.
    #[n(2)]
    Ingress(#[n(0)] Ingress),
    /// The step asked for an external effect.
    #[n(3)]
    Intent(#[n(0)] Intent),
    /// The step withdrew an open intent.
    #[n(4)]
    Cancel(#[n(0)] IntentHash),
    /// The step answered a call.
    #[n(5)]
    Reply(#[n(0)] Reply),
    /// From the next record on, another manifest holds.
    #[n(6)]
    ManifestChange(#[n(0)] ManifestChange),
    /// A snapshot of everything below this height was stored.
    #[n(7)]
    Snapshot(#[n(0)] SnapshotNote),
    /// Restore starts from this snapshot from now on.
    #[n(8)]
    BaselineSnapshot(#[n(0)] SnapshotNote),
    /// An inbox item was refused; it had no effect.
    #[n(9)]
    Rejected(#[n(0)] Rejected),
    /// A turn ends: the running hash over all that its steps produced.
    #[n(10)]
    OutcomeDigest(#[n(0)] Hash),
    /// Something that the host wants on record and the program does not see.
    #[n(11)]
    Custom(#[n(0)] Custom),
    /// The step failed. Its cells, intents, timers and replies were thrown away; the world continues.
    #[n(12)]
    StepFailed(#[n(0)] StepFailed),
    /// In a fork that is answered from its parent's receipts: this intent is not what the parent asked for next. From it
    /// on, the fork's effects are its own and are carried out.
    #[n(13)]
    RecordingEnded(#[n(0)] IntentHash),
    /// The next turn failed again and again, or a step failed and the manifest holds the world there. The world is paused from
    /// here, so that the commands which wait behind what it failed at are taken first.
    #[n(14)]
    Held(#[n(0)] Held),
}

/// The values that are injected into a step. They are written once, when its record is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Stamps {
    /// The worker's clock.
    #[n(0)]
    pub now_ns: u64,
    /// The world's clock: `now_ns`, but never earlier than the record before.
    #[n(1)]
    pub logical_now_ns: u64,
    /// The seed of this step's random numbers.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub entropy: [u8; 16],
    /// The manifest that is current at this height.
    #[n(3)]
    pub manifest: Hash,
    /// How many steps the checks of this step against schemas had; only there if they were not enough. A replay stops them at
    /// the same place; without it, it checks what was checked before.
    #[n(4)]
    pub schema_work_max: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Genesis {
    #[n(0)]
    pub universe: UniverseId,
    #[n(1)]
    pub world: WorldId,
    #[n(2)]
    pub manifest: Hash,
    #[n(3)]
    pub now_ns: u64,
}

/// The policy for the effects of a fork: for those that were open in its parent, and for its own.
///
/// The behaviour of each is one table, [`FORK_POLICIES`](crate::FORK_POLICIES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EffectPolicy {
    /// Of forks of before cancellations: open ones were cleared, and the program heard nothing. No new fork has it.
    #[n(0)]
    Dropped,
    /// Answered from the parent's receipts while the intents match; from the first difference on, carried out.
    #[n(1)]
    RecordedThenLive,
    /// Open ones are published again, under the child's own intent hashes.
    #[n(2)]
    Live,
    /// Open ones are answered with a cancellation: a branch repeats no side effect. Its own are carried out.
    #[n(3)]
    Suppress,
    /// Answered from the parent's receipts while the intents match; the first difference stops the world.
    #[n(4)]
    Recorded,
    /// None is ever carried out: each is answered by a receipt of the parent, by a script, or with an error.
    #[n(5)]
    Sandbox,
    /// Of a world that arrived from elsewhere: the policy that it had there stays, and nothing is carried out for it.
    #[n(6)]
    Kept,
}

impl EffectPolicy {
    /// Those that a new fork may have.
    pub const OFFERED: [Self; 5] = [Self::Suppress, Self::Sandbox, Self::Recorded, Self::RecordedThenLive, Self::Live];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::RecordedThenLive => "recorded-then-live",
            Self::Live => "live",
            Self::Suppress => "suppress",
            Self::Recorded => "recorded",
            Self::Sandbox => "sandbox",
            Self::Kept => "kept",
        }
    }

    /// The policy of that name, if a new fork may have it.
    pub fn offered(name: &str) -> Option<Self> {
        Self::OFFERED.into_iter().find(|policy| policy.as_str() == name)
    }

    /// Whether effects may not be carried out, whatever the program asks for. It is never lost on the way to another universe,
    /// and a fork has it too unless it asks for something else.
    pub const fn confines(self) -> bool {
        matches!(self, Self::Recorded | Self::Sandbox)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ForkGenesis {
    #[n(0)]
    pub universe: UniverseId,
    #[n(1)]
    pub world: WorldId,
    #[n(2)]
    pub parent: WorldId,
    /// The child starts with this head: it shares all records of the parent below it.
    #[n(3)]
    pub forked_at: Height,
    /// The parent's snapshot at that height, and the one that the policy made of it.
    #[n(4)]
    pub parent_snapshot: Hash,
    #[n(5)]
    pub snapshot: Hash,
    #[n(6)]
    pub policy: EffectPolicy,
    #[n(7)]
    pub now_ns: u64,
    /// The manifest that the branch was asked to run on instead of its parent's: the first item of its inbox is the command.
    #[n(8)]
    pub manifest: Option<Hash>,
    /// Of a sandbox: the object with the answers that were scripted for it.
    #[n(9)]
    pub answers: Option<Hash>,
    /// The payload of the message that it began with: another result for an await of a durable function.
    #[n(10)]
    pub told: Option<Hash>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ingress {
    #[n(0)]
    pub stamps: Stamps,
    /// Where in the inbox it stood.
    #[n(1)]
    pub seq: InboxSeq,
    #[n(2)]
    pub item: InboxItem,
    /// Of an event: [`Input::event_hash`]. Records of before there was one have none.
    #[n(3)]
    pub event_hash: Option<Hash>,
}

impl Ingress {
    pub fn new(stamps: Stamps, seq: InboxSeq, item: InboxItem) -> Self {
        let event_hash = item.input.event_hash();
        Self { stamps, seq, item, event_hash }
    }
}

/// A request for an external effect. Timers (`timer.set`), messages to other worlds (`fabric.send`) and
/// new worlds (`world.spawn`) are intents of a reserved kind.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Intent {
    #[n(0)]
    pub hash: IntentHash,
    #[n(1)]
    pub kind: String,
    #[n(2)]
    pub params: Payload,
    /// The program's own name for it, so that a receipt finds its way inside the world.
    #[n(3)]
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Reply {
    /// The call that it answers: the inbox place of the event.
    #[n(0)]
    pub to: InboxSeq,
    #[n(1)]
    pub outcome: ReplyOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ReplyOutcome {
    #[n(0)]
    Ok(#[n(0)] Payload),
    /// A step failed that the caller waited for: a code, a sentence for people, and the height of the record whose step it was.
    /// (Records of before heights were told have none.)
    #[n(1)]
    Failed(#[n(0)] String, #[n(1)] String, #[n(2)] Option<Height>),
}

/// Why a world is on hold: its turns fail with an error of the host, which is no outcome of the program; or a step failed, and
/// its manifest says that the world stops there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Held {
    #[n(0)]
    pub code: String,
    #[n(1)]
    pub reason: String,
    /// The inbox item whose step failed. It was not taken in: it comes next, when the world continues.
    #[n(2)]
    pub failed: Option<FailedInput>,
}

/// An inbox item whose step failed and which still waits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FailedInput {
    #[n(0)]
    pub seq: InboxSeq,
    /// The hash of the item's bytes.
    #[n(1)]
    pub item: Hash,
    /// A description for people: `event add`, `receipt http.request`.
    #[n(2)]
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepFailed {
    /// A stable error code: what replay must find again.
    #[n(0)]
    pub code: String,
    /// For people. A panic's text may change with the compiler, so replay does not compare it.
    #[n(1)]
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ManifestChange {
    #[n(0)]
    pub from: Hash,
    #[n(1)]
    pub to: Hash,
    /// The operator insisted although a rehearsal over open work diverged.
    #[n(2)]
    pub forced: bool,
}

/// A snapshot as the journal and the index know it. One at height `h` covers every record below `h`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SnapshotNote {
    #[n(0)]
    pub snapshot: Hash,
    #[n(1)]
    pub height: Height,
    #[n(2)]
    pub logical_time_ns: u64,
    /// Every intent published below this height has its receipt below the snapshot, or is listed in it.
    #[n(3)]
    pub receipt_horizon: Option<Height>,
    /// The manifest that the journal gives at `height`.
    #[n(4)]
    pub manifest: Hash,
    /// The chain hash of the record below `height`.
    #[n(5)]
    pub chain: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Rejected {
    #[n(0)]
    pub seq: InboxSeq,
    /// A stable error code.
    #[n(1)]
    pub code: String,
    #[n(2)]
    pub reason: String,
    /// The hash of the refused item's bytes.
    #[n(3)]
    pub item: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Custom {
    #[n(0)]
    pub kind: String,
    #[n(1)]
    pub payload: Payload,
}

#[cfg(test)]
mod tests;
