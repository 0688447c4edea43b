//! Send to another world.
//!
//! Guarantees: a message is enqueued at its destination at most once, however often and however late it is sent;
//! who sends again learns where it stands. It gets its place in the one order of the destination's inbox, and says from
//! which world it came and which height that world had reached. Messages to one destination are read in the order in
//! which they were enqueued there; between destinations there is no order.
//!
//! The receipt for the sender is written by whoever completes the effect, in another transaction: a crash between the two
//! sends again, and finds the message there.
//!
//! Why at most once, without a bound on time: a message is enqueued only in a transaction that finds its claim held and its
//! effect open, and its name is removed only in a transaction that finds the effect closed (`expire_dedupe`). A closed effect is
//! never opened again. So whichever of the two commits later conflicts, or sees the other: no attempt, not one that was away
//! for hours, can miss the name of the message that an earlier one sent. Several effects may share a name that the sender chose: each that
//! finds the name is added to it (`enqueue`), and the name is removed only in a transaction that finds all of them closed. The dedupe window only
//! says how long a name stays after that. An effect that sends under a chosen name for the first time after that sends another message.
//!
//! Unknown commit: run again; the message is there, under its name. A claim that was lost meanwhile ends the attempt.

use crate::protocol::{
    EffectClaim, EffectError, Enqueue, NewItem, WokenBy,
    enqueue::{Placement, placed, spill_all},
    settle_effect::Held,
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::inbox_dedupe::{self, DedupeId, SendingEffect},
    run,
};
use mundi_engine::{Engine, ReadPlan, Source, Transaction};
use mundi_model::{
    Hash, InboxSeq, IntentHash, UniverseId, Value, WorldId,
    record::{InboxItem, Input, Origin, Sender},
};
use std::{collections::BTreeMap, fmt};

/// The name of a message: what is sent again under it is not enqueued again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageId {
    /// The intent of the sender.
    Intent(IntentHash),
    /// One that the sender chose, because its manifest allows it. Whoever sends to the same world under the same one sends the
    /// same message; it never meets an intent's.
    Chosen(Hash),
}

impl MessageId {
    pub(in crate::protocol) fn dedupe(self) -> DedupeId {
        match self {
            Self::Intent(intent) => DedupeId::message(intent),
            Self::Chosen(id) => DedupeId::chosen_message(id),
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent(intent) => intent.fmt(f),
            Self::Chosen(id) => id.fmt(f),
        }
    }
}

/// A message on its way.
#[derive(Debug, Clone)]
pub struct FabricMessage {
    pub id: MessageId,
    /// The right to carry the sender's effect out.
    pub claim: EffectClaim,
    pub from: Sender,
    pub to: WorldId,
    /// An [`Input::Event`] or an [`Input::Message`].
    pub input: Input,
    pub correlation_id: Option<String>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// Of an event; those of a message stand in its input.
    pub headers: BTreeMap<String, String>,
    /// How long its name stays once the effect is over.
    pub dedupe_window_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub seq: InboxSeq,
    pub already_enqueued: bool,
}

/// Delivers a message to a world of `universe`.
pub async fn fabric_send<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    universe: UniverseId,
    message: FabricMessage,
    woken_by: WokenBy,
) -> Result<Sent, StoreError> {
    let FabricMessage { id, claim, from, to, input, correlation_id, trace, headers, dedupe_window_ns } = message;
    let origin = Origin { correlation_id, trace, sender: Some(from), headers, ..Origin::new(clock.now_ns()) };
    let mut new = [NewItem { item: InboxItem { input, origin }, dedupe: Some(id.dedupe()) }];
    spill_all(blobs, universe, &mut new).await?;
    let sent_by = SendingEffect::new(claim.universe, claim.queue_shard, claim.seq, claim.world, claim.intent);
    let enqueue = Enqueue::new(universe, to, &new, clock.now_ns(), dedupe_window_ns)?;
    let enqueue = enqueue.woken_by(woken_by).sent_by(sent_by);
    let done = run(engine, clock, &SendMessage { claim, enqueue }).await?;
    let placed = placed(&done.output, done.stamp);
    #[expect(clippy::expect_used, reason = "one item in, one place out")]
    let placed = placed.first().expect("the place of the one item");
    Ok(Sent { seq: placed.seq, already_enqueued: placed.before })
}

struct SendMessage {
    claim: EffectClaim,
    enqueue: Enqueue,
}

impl Protocol for SendMessage {
    type Output = Vec<Placement>;

    fn on_unknown(&self) -> OnUnknown {
        self.enqueue.on_unknown()
    }

    fn source(&self) -> Source {
        self.enqueue.source()
    }

    fn read_plan(&self) -> ReadPlan {
        let ReadPlan { mut reads, .. } = self.enqueue.read_plan();
        reads.extend(Held::reads(&self.claim));
        ReadPlan::reads(reads)
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<Placement>, StoreError> {
        let EffectClaim { world, intent, .. } = self.claim;
        match self.claim.held(tx).await? {
            Held::Mine(_) => self.enqueue.run(tx).await,
            Held::Withdrawn(_) | Held::Answered | Held::Over | Held::Lost => {
                Err(EffectError::ClaimLost { world, intent }.into())
            }
        }
    }
}

/// Where a message was enqueued before, if it was. Reads only.
#[derive(Debug, Clone, Copy)]
pub struct FindMessage {
    pub universe: UniverseId,
    pub to: WorldId,
    pub id: MessageId,
}

impl Protocol for FindMessage {
    type Output = Option<Sent>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Sent>, StoreError> {
        let seq = inbox_dedupe::read(tx, self.universe, self.to, self.id.dedupe()).await?;
        Ok(seq.map(|seq| Sent { seq, already_enqueued: true }))
    }
}

/// The content of a receipt of `fabric.send`, whatever happened to the message (`sys/FabricSendReceipt@1`): `status`, `message_id`,
/// `dest_world` and `enqueued_seq`, which is null unless it was enqueued.
pub fn fabric_receipt(
    status: &str,
    intent: IntentHash,
    params: &Value,
    seq: Option<InboxSeq>,
) -> BTreeMap<String, Value> {
    let text = |name: &str| match params {
        Value::Map(fields) => fields.get(name).filter(|value| matches!(value, Value::Text(_))).cloned(),
        _ => None,
    };
    let seq = seq.map_or(Value::Null, |seq| Value::Bytes(seq.as_bytes().to_vec()));
    BTreeMap::from([
        ("status".to_owned(), Value::Text(status.to_owned())),
        ("message_id".to_owned(), text("message_id").unwrap_or_else(|| Value::Text(intent.to_string()))),
        ("dest_world".to_owned(), text("dest_world").unwrap_or(Value::Null)),
        ("enqueued_seq".to_owned(), seq),
    ])
}
