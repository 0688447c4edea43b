//! The records of a world's journal, and the items of its inbox.
//!
//! A record is canonical CBOR and carries the hash of its predecessor: a journal is a hash chain. The
//! numbers in `#[n(..)]` are persisted; they are never reused (a test pins them by golden bytes).

use crate::{Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId, cbor};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

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
    /// What the first record of an unforked world names as its predecessor.
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

/// What a record says.
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
    /// The step failed. Its cells, intents, timers and replies were thrown away; the world goes on.
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

/// What is injected into a step, written once when its record is appended.
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

/// What becomes of the effects of a fork: of those that were open in its parent, and of its own.
///
/// What each does is one table, [`FORK_POLICIES`](crate::FORK_POLICIES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EffectPolicy {
    /// Of forks of before cancellations: open ones were cleared, and the program heard nothing. No new fork has it.
    #[n(0)]
    Dropped,
    /// Answered from the parent's receipts while the intents match; from the first difference on, carried out.
    #[n(1)]
    RecordedThenLive,
    /// Open ones are published anew, under the child's own intent hashes.
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
    /// The inbox item whose step failed. It was not taken in: it comes next, when the world goes on.
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
    /// What it is, for people: `event add`, `receipt http.request`.
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

/// Bytes that are carried along, or the content-store object that holds them when there are many.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Payload {
    #[n(0)]
    Inline(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(1)]
    Blob(#[n(0)] Hash, #[n(1)] u64),
}

/// What waits in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct InboxItem {
    #[n(0)]
    pub input: Input,
    #[n(1)]
    pub origin: Origin,
}

/// The five ways in.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Input {
    /// An event of the program's own vocabulary.
    #[n(0)]
    Event {
        #[n(0)]
        schema: String,
        #[n(1)]
        value: Payload,
        #[n(2)]
        key: Option<String>,
    },
    /// The terminal answer to an intent.
    #[n(1)]
    Receipt(#[n(0)] Receipt),
    /// A message for a named inbox of the program.
    #[n(2)]
    Message {
        #[n(0)]
        inbox: String,
        #[n(1)]
        payload: Payload,
        #[n(2)]
        #[cbor(with = "cbor::text_map")]
        headers: BTreeMap<String, String>,
    },
    /// A timer of the program came due.
    #[n(3)]
    TimerFired {
        #[n(0)]
        timer: IntentHash,
        #[n(1)]
        payload: Payload,
    },
    /// A command of an operator: upgrade, pause, snapshot ...
    #[n(4)]
    Control {
        #[n(0)]
        command: String,
        #[n(1)]
        payload: Payload,
    },
}

impl Input {
    /// What names the content of an event: its schema, its value and its key, wherever and however often it is sent. `None`
    /// for everything that is not an event.
    pub fn event_hash(&self) -> Option<Hash> {
        let Self::Event { schema, value, key } = self else { return None };
        let value = match value {
            Payload::Inline(bytes) => Hash::of(bytes),
            Payload::Blob(hash, _) => *hash,
        };
        Some(Hash::of(&cbor::encode(&("mundi.event.1", schema, value, key))))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Receipt {
    #[n(0)]
    pub intent: IntentHash,
    #[n(1)]
    pub kind: String,
    #[n(2)]
    pub status: ReceiptStatus,
    #[n(3)]
    pub payload: Payload,
    /// Which adapter answered.
    #[n(4)]
    pub adapter: String,
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub signature: Option<Vec<u8>>,
    /// Who answered by hand, in place of an adapter.
    #[n(6)]
    pub operator: Option<Operator>,
}

/// An operator who answered an intent by hand.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Operator {
    /// The public half of the token that allowed it; absent where a server requires none.
    #[n(0)]
    pub token: Option<u64>,
    /// The token's label, or the name that the caller gave.
    #[n(1)]
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ReceiptStatus {
    #[n(0)]
    Ok,
    #[n(1)]
    Error,
    #[n(2)]
    Timeout,
}

/// Where an item came from: carried along for answers, traces and causality, and never interpreted.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Origin {
    #[n(0)]
    pub enqueued_at_ns: u64,
    #[n(1)]
    pub correlation_id: Option<String>,
    /// W3C `traceparent`.
    #[n(2)]
    pub trace: Option<String>,
    /// Someone waits for the reply to this very item.
    #[n(3)]
    pub wants_reply: bool,
    /// The world that sent it, and the height that its sender had reached.
    #[n(4)]
    pub sender: Option<Sender>,
    /// What the sender of an event set beside it; those of a message stand in [`Input::Message`].
    #[n(5)]
    #[cbor(with = "cbor::text_map", has_nil)]
    pub headers: BTreeMap<String, String>,
    /// Of a receipt or a timer: the call on whose behalf the program asked for it, as long as the program has not answered it.
    /// If the step of this item fails, the caller hears of it.
    #[n(6)]
    pub call: Option<InboxSeq>,
}

impl Origin {
    /// The call that the step of an item at this place of the inbox works for.
    pub fn call_at(&self, seq: InboxSeq) -> Option<InboxSeq> {
        if self.wants_reply { Some(seq) } else { self.call }
    }

    /// Of what nobody sent and nobody waits for.
    pub fn new(enqueued_at_ns: u64) -> Self {
        Self {
            enqueued_at_ns,
            correlation_id: None,
            trace: None,
            wants_reply: false,
            sender: None,
            headers: BTreeMap::new(),
            call: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Sender {
    #[n(0)]
    pub world: WorldId,
    #[n(1)]
    pub height: Height,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Coded, Stamp};

    fn seal(body: Body) -> (Vec<u8>, Hash) {
        Record { height: Height::new(500), prev: Record::CHAIN_START, body }.seal()
    }

    fn inline(bytes: &[u8]) -> Payload {
        Payload::Inline(bytes.to_vec())
    }

    fn seq() -> InboxSeq {
        InboxSeq::new(Stamp::new(1, 2), 3)
    }

    fn ingress(input: Input) -> Body {
        let stamps = Stamps {
            now_ns: 1,
            logical_now_ns: 2,
            entropy: [3; 16],
            manifest: Hash::of(b"manifest"),
            schema_work_max: None,
        };
        let sender = Sender { world: WorldId::from_bytes([6; 16]), height: Height::new(7) };
        let origin = Origin {
            enqueued_at_ns: 4,
            correlation_id: Some("c".into()),
            trace: None,
            wants_reply: true,
            sender: Some(sender),
            headers: BTreeMap::new(),
            call: None,
        };
        Body::Ingress(Ingress { stamps, seq: seq(), item: InboxItem { input, origin }, event_hash: None })
    }

    fn note() -> SnapshotNote {
        SnapshotNote {
            snapshot: Hash::of(b"snapshot"),
            height: Height::new(400),
            logical_time_ns: 9,
            receipt_horizon: None,
            manifest: Hash::of(b"manifest"),
            chain: Hash::of(b"chain"),
        }
    }

    /// One record of each kind, with every field set.
    fn one_of_each() -> Vec<Body> {
        let (universe, world) = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
        let intent = IntentHash::of(b"intent");
        let receipt = Receipt {
            intent,
            kind: "http".into(),
            status: ReceiptStatus::Timeout,
            payload: Payload::Blob(Hash::of(b"blob"), 4),
            adapter: "a".into(),
            signature: Some(vec![1]),
            operator: None,
        };
        let by_hand = Receipt {
            signature: None,
            operator: Some(Operator { token: Some(9), name: "ops".into() }),
            ..receipt.clone()
        };
        let headers = [("b", "1"), ("aa", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        vec![
            Body::Genesis(Genesis { universe, world, manifest: Hash::of(b"manifest"), now_ns: 5 }),
            Body::ForkGenesis(ForkGenesis {
                universe,
                world,
                parent: WorldId::from_bytes([3; 16]),
                forked_at: Height::new(500),
                parent_snapshot: Hash::of(b"parent"),
                snapshot: Hash::of(b"child"),
                policy: EffectPolicy::RecordedThenLive,
                now_ns: 5,
                manifest: None,
                answers: None,
            }),
            ingress(Input::Event { schema: "e".into(), value: inline(b"\x01"), key: Some("k".into()) }),
            ingress(Input::Receipt(receipt)),
            ingress(Input::Message { inbox: "i".into(), payload: inline(b""), headers: headers.into() }),
            ingress(Input::TimerFired { timer: intent, payload: inline(b"p") }),
            ingress(Input::Control { command: "pause".into(), payload: inline(b"") }),
            Body::Intent(Intent { hash: intent, kind: "http".into(), params: inline(b"\xa0"), label: "l".into() }),
            Body::Cancel(intent),
            Body::Reply(Reply { to: seq(), outcome: ReplyOutcome::Ok(inline(b"r")) }),
            Body::Reply(Reply { to: seq(), outcome: ReplyOutcome::Failed("CODE".into(), "why".into(), None) }),
            Body::ManifestChange(ManifestChange { from: Hash::of(b"a"), to: Hash::of(b"b"), forced: true }),
            Body::Snapshot(note()),
            Body::BaselineSnapshot(SnapshotNote { receipt_horizon: Some(Height::new(3)), ..note() }),
            Body::Rejected(Rejected { seq: seq(), code: "CODE".into(), reason: "why".into(), item: Hash::of(b"item") }),
            Body::OutcomeDigest(Hash::of(b"outcome")),
            Body::Custom(Custom { kind: "c".into(), payload: inline(b"x") }),
            Body::StepFailed(StepFailed { code: "CODE".into(), reason: "why".into() }),
            Body::RecordingEnded(intent),
            ingress(Input::Receipt(by_hand)),
            with_headers(),
            Body::Held(Held { code: "CODE".into(), reason: "why".into(), failed: None }),
            Body::Held(Held {
                code: "CODE".into(),
                reason: "why".into(),
                failed: Some(FailedInput { seq: seq(), item: Hash::of(b"item"), what: "event e".into() }),
            }),
            Body::Reply(Reply {
                to: seq(),
                outcome: ReplyOutcome::Failed("CODE".into(), "why".into(), Some(Height::new(7))),
            }),
            for_a_call(),
        ]
    }

    /// A timer of a program that works for a call.
    fn for_a_call() -> Body {
        let Body::Ingress(mut ingress) =
            ingress(Input::TimerFired { timer: IntentHash::of(b"t"), payload: inline(b"") })
        else {
            unreachable!()
        };
        ingress.item.origin = Origin { call: Some(seq()), ..Origin::new(4) };
        Body::Ingress(ingress)
    }

    /// An event with its hash and headers.
    fn with_headers() -> Body {
        let event = Input::Event { schema: "e".into(), value: inline(b"\x01"), key: None };
        let Body::Ingress(ingress) = ingress(event) else { unreachable!() };
        let mut item = ingress.item;
        item.origin.headers = [("b".to_owned(), "1".to_owned()), ("aa".to_owned(), "2".to_owned())].into();
        Body::Ingress(Ingress::new(ingress.stamps, ingress.seq, item))
    }

    #[test]
    fn an_event_has_the_same_hash_inline_and_as_an_object() {
        let event = |value, key: Option<&str>| Input::Event { schema: "e".into(), value, key: key.map(str::to_owned) };
        let hash = event(inline(b"\x01"), None).event_hash().unwrap();
        assert_eq!(event(Payload::Blob(Hash::of(b"\x01"), 1), None).event_hash(), Some(hash));
        assert_ne!(event(inline(b"\x02"), None).event_hash(), Some(hash));
        assert_ne!(event(inline(b"\x01"), Some("k")).event_hash(), Some(hash));
        assert_eq!(Input::Control { command: "pause".into(), payload: inline(b"") }.event_hash(), None);
    }

    /// These are persisted in every journal: a change here is a change of the format.
    const GOLDEN: [&str; 25] = [
        "aee46272a6d176c8",
        "2aaa7d0b9a4cb50b",
        "bf6b0e1432901afe",
        "7649dcac5c7562dc",
        "fda02d68e1485054",
        "1307f3a7510a6987",
        "3d09c05aca5d5f02",
        "f93fb87495fae8d0",
        "c669cfc4ec8cd7bb",
        "752c04548aa75ca6",
        "1d8b255303e67559",
        "c4140fe8f69b8556",
        "e2cb5a2f09d77665",
        "831318518b2583fc",
        "296226e792b9845c",
        "764047f0ee7eb28d",
        "72cad70a2ac0b387",
        "f12bfb9876d1ab91",
        "af09d0ea522a183e",
        "2f06f8261e9ef4d2",
        "39e31f695ec1cef4",
        "2c8b8bd7999a8f29",
        "722883f0f57a6399",
        "6b9b12e9fd47fb81",
        "b71818d97ee0ccaf",
    ];

    #[test]
    fn the_hash_of_each_kind_of_record_is_pinned() {
        let hashes: Vec<_> = one_of_each().into_iter().map(|body| seal(body).1.to_hex()[..16].to_owned()).collect();
        assert_eq!(hashes, GOLDEN);
    }

    #[test]
    fn the_bytes_of_a_record_can_be_written_by_hand() {
        let (bytes, _) = seal(Body::Cancel(IntentHash::from_bytes([0xee; 32])));
        let by_hand = [
            &[0x83, 0x19, 0x01, 0xf4, 0x58, 0x20][..], // array(3), 500, bytes(32)
            &[0; 32],
            &[0x82, 0x04, 0x81, 0x58, 0x20], // array(2), variant 4, array(1), bytes(32)
            &[0xee; 32],
        ];
        assert_eq!(bytes, by_hand.concat());
    }

    #[test]
    fn each_kind_of_record_is_read_as_it_was_written() {
        for body in one_of_each() {
            let (bytes, _) = seal(body.clone());
            assert_eq!(cbor::decode::<Record>(&bytes).unwrap().body, body);
            for len in 0..bytes.len() {
                assert!(cbor::decode::<Record>(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn headers_sort_as_their_encodings_do() {
        let headers = [("b".to_owned(), "1".to_owned()), ("aa".to_owned(), "2".to_owned())].into();
        let (bytes, _) = seal(ingress(Input::Message { inbox: "i".into(), payload: inline(b""), headers }));
        let canonical = b"\xa2\x61b\x611\x62aa\x612";
        let at = bytes.windows(canonical.len()).position(|window| window == canonical).unwrap();
        let mut swapped = bytes;
        swapped[at..at + canonical.len()].copy_from_slice(b"\xa2\x62aa\x612\x61b\x611");
        assert_eq!(cbor::decode::<Record>(&swapped).unwrap_err().code(), Code::CborNotCanonical);
    }

    #[test]
    fn a_sealed_record_names_its_predecessor() {
        let (_, first) = seal(Body::OutcomeDigest(Hash::of(b"")));
        let next = |prev| Record { height: Height::new(501), prev, body: Body::Cancel(IntentHash::of(b"x")) };
        assert_ne!(next(first).seal().1, next(Record::CHAIN_START).seal().1);
    }
}
