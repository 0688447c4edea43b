//! The inputs of a world: the items of its inbox, with their origin.

use crate::{Hash, Height, InboxSeq, IntentHash, WorldId, cbor};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

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

/// An item that waits in an inbox.
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
    /// The hash that identifies the content of an event (its schema, value and key), wherever and however often it is sent. `None`
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
    /// The operator who answered instead of an adapter.
    #[n(6)]
    pub operator: Option<Operator>,
}

/// An operator who answered an intent.
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
    /// The headers that the sender of an event set; those of a message are in [`Input::Message`].
    #[n(5)]
    #[cbor(with = "cbor::text_map", has_nil)]
    pub headers: BTreeMap<String, String>,
    /// Of a receipt or a timer: the call on whose behalf the program asked for it, as long as the program has not answered it.
    /// If the step of this item fails, the caller is notified.
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
