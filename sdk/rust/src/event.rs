//! Inputs that reach a program.

use crate::{
    Effect, Failure, cbor,
    kinds::{EffectError, WorldCall},
};
use serde::de::DeserializeOwned;

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The place in the inbox: where a reply goes, now or in a later step.
    pub seq: String,
    pub origin: Origin,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub enqueued_at_ns: u64,
    pub correlation_id: Option<String>,
    pub trace: Option<String>,
    /// Someone waits for a reply.
    pub wants_reply: bool,
    pub sender: Option<Sender>,
}

/// The world that sent an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub world: String,
    /// The height that it had reached.
    pub height: u64,
}

/// Payloads are canonical CBOR; [`Event::value`] and [`Cause::payload`] read them.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// An event of the program's own vocabulary; its value satisfies the schema in `mundi.json`.
    Event {
        schema: String,
        value: Vec<u8>,
        key: Option<String>,
    },
    /// The one answer to an effect that was asked for under this label.
    Receipt {
        label: String,
        kind: String,
        status: Status,
        payload: Vec<u8>,
    },
    Message {
        inbox: String,
        payload: Vec<u8>,
        headers: Vec<(String, String)>,
    },
    Timer {
        label: String,
        payload: Vec<u8>,
    },
    /// This program takes over from that of another manifest. If it fails here, it does not.
    Upgraded {
        from: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ok,
    Error,
    Timeout,
}

/// A message or a delayed event to another world.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    Event { schema: String, value: Vec<u8> },
    Message { inbox: String, payload: Vec<u8>, headers: Vec<(String, String)> },
}

/// Options beside a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendOptions {
    /// The universe of the world that it goes to: the sender's own if absent. Another one must accept messages from here.
    pub universe: Option<String>,
    /// Arrives as [`Origin::correlation_id`].
    pub correlation_id: Option<String>,
    /// Arrive as [`World::headers`](crate::World::headers).
    pub headers: Vec<(String, String)>,
    /// A hash (`h_…`) under which it is enqueued at most once, in place of the intent's; only where the manifest allows it.
    pub message_id: Option<String>,
}

impl Outgoing {
    pub fn event(schema: &str, value: &impl serde::Serialize) -> Result<Self, Failure> {
        Ok(Self::Event { schema: schema.to_owned(), value: cbor::to_vec(value)? })
    }
}

impl Event {
    /// The receipt of an effect of this kind: what it carries, or why the effect was not carried out.
    pub fn receipt<E: Effect>(&self) -> Result<Result<E::Receipt, EffectError>, Failure> {
        match &self.cause {
            Cause::Receipt { kind, status: Status::Ok, payload, .. } if kind == E::KIND => {
                Ok(Ok(cbor::from_slice(payload)?))
            }
            Cause::Receipt { kind, payload, .. } if kind == E::KIND => Ok(Err(effect_error(payload))),
            Cause::Receipt { kind, .. } => Err(Failure::new(format!("a receipt of `{kind}`, not of `{}`", E::KIND))),
            _ => Err(Failure::new("this is no receipt")),
        }
    }

    /// The reply of another world to [`World::call`](crate::World::call), as a type; or why there is none.
    pub fn reply<T: DeserializeOwned>(&self) -> Result<Result<T, EffectError>, Failure> {
        match self.receipt::<WorldCall>()? {
            Ok(_) => Ok(Ok(self.value()?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The payload, whatever the cause.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.cause.payload()
    }
}

/// A receipt that the manifest's schema refuses arrives as an error whose payload is a text.
fn effect_error(payload: &[u8]) -> EffectError {
    cbor::from_slice(payload).unwrap_or_else(|_| EffectError::new("RECEIPT_INVALID", String::from_utf8_lossy(payload)))
}

impl Cause {
    /// Its payload, as a type of the program's own.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match self {
            Self::Event { value: payload, .. }
            | Self::Receipt { payload, .. }
            | Self::Message { payload, .. }
            | Self::Timer { payload, .. } => Ok(cbor::from_slice(payload)?),
            Self::Upgraded { .. } => Err(Failure::new("an upgrade carries nothing")),
        }
    }
}
