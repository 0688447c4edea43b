//! A world for tests, without a server: events go in, and what follows is there to be looked at.
//!
//! It is as strict as a server: what `mundi.json` does not declare, a value that its schema refuses, an id that is none and
//! what is beyond a bound end the step with the server's code in [`Failure::code`], and leave nothing behind. Only the fuel and
//! the memory of a component are not counted here.

mod bundle;
mod children;
mod functions;
pub(crate) mod meter;
pub(crate) mod offer;
mod schema;
pub(crate) mod state;

use crate::{
    Cause, Effect, Event, Failure, Origin, Outgoing, Program, SendOptions, Sender, Status, Value, World, cbor, host,
    kinds::{EffectError, WorldCall},
};
pub use bundle::{replay_bundle, replay_open_work};
pub use functions::{DurableWorld, Instance, for_each_crash};
use meter::PAYLOAD_BYTES_MAX;
use offer::{Offer, check_builtin_receipt};
use serde::{Serialize, de::DeserializeOwned};
use state::State;
use std::{collections::BTreeMap, marker::PhantomData};

/// The receipt that a program gets in place of one that its schema refuses.
const BAD_RECEIPT: &[u8] = b"the payload does not satisfy the manifest's schema";

fn check_size(payload: &[u8]) -> Result<(), Failure> {
    if payload.len() <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::coded("ITEM_TOO_LARGE", format!("the payload has {} bytes", payload.len())))
}

/// A world of a program.
pub struct TestWorld<P> {
    state: State,
    program: PhantomData<P>,
}

/// The outputs of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// The answer to the event itself.
    pub reply: Option<Value>,
    /// Answers to earlier events, by their places.
    pub replies: BTreeMap<String, Value>,
    pub intents: Vec<Intent>,
    /// The messages to other worlds; each is also among the intents.
    pub sent: Vec<Sending>,
    pub timers: Vec<Timer>,
    /// The labels of effects and timers that were withdrawn.
    pub cancelled: Vec<String>,
    pub logs: Vec<String>,
}

/// An effect that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub kind: String,
    pub label: String,
    /// Bytes in it are an object with the key [`BYTES`](crate::bytes::BYTES).
    pub params: Value,
}

impl Intent {
    /// The params, as a type of the program's own or of [`kinds`](crate::kinds).
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(serde_json::from_value(self.params.clone())?)
    }
}

/// Something that was sent to another world.
#[derive(Debug, Clone, PartialEq)]
pub struct Sending {
    pub label: String,
    /// The destination: an id or a name.
    pub to: String,
    /// The schema of an event; none of a message.
    pub schema: Option<String>,
    /// The inbox of a message; none of an event.
    pub inbox: Option<String>,
    /// The value of an event, or the payload of a message.
    pub value: Value,
    pub options: SendOptions,
}

impl Sending {
    pub(crate) fn new(to: &str, label: &str, what: &Outgoing, options: &SendOptions) -> Result<Self, Failure> {
        let (schema, inbox, value) = match what {
            Outgoing::Event { schema, value } => (Some(schema.clone()), None, cbor::decode(value)?),
            Outgoing::Message { inbox, payload, .. } => (None, Some(inbox.clone()), crate::bytes::to_value(payload)),
        };
        let mut options = options.clone();
        if let Outgoing::Message { headers, .. } = what {
            options.headers = headers.iter().chain(&options.headers).cloned().collect();
        }
        Ok(Self { label: label.to_owned(), to: to.to_owned(), schema, inbox, value, options })
    }
}

/// A timer that was set.
#[derive(Debug, Clone, PartialEq)]
pub struct Timer {
    pub label: String,
    pub due_ns: u64,
    pub payload: Value,
}

impl<P: Program> Default for TestWorld<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Program> TestWorld<P> {
    /// Panics if the program's `mundi.json` is not valid; [`TestWorld::with_offer`] says why.
    pub fn new() -> Self {
        Self::with_offer(P::OFFER).unwrap_or_else(|invalid| panic!("{invalid}"))
    }

    /// A world of the program with another `mundi.json` than its own.
    pub fn with_offer(offer: &str) -> Result<Self, Failure> {
        Ok(Self { state: State::new(Offer::parse(offer)?), program: PhantomData })
    }

    /// Moves the world's clock forward.
    pub fn advance(&mut self, ns: u64) {
        self.state.now_ns += ns;
    }

    /// An event, as a caller sends it.
    pub fn send(&mut self, schema: &str, value: impl Serialize) -> Result<Step, Failure> {
        let value = cbor::to_vec(&value)?;
        self.step(Cause::Event { schema: schema.to_owned(), value, key: None })
    }

    /// The answer to the open effect of this label.
    pub fn receipt(&mut self, label: &str, status: Status, payload: impl Serialize) -> Result<Step, Failure> {
        let payload = cbor::to_vec(&payload)?;
        let Some(intent) = self.state.intents.get(label) else {
            let code = if self.state.closed.contains(label) { "RECEIPT_CLOSED" } else { "RECEIPT_UNKNOWN" };
            return Err(Failure::coded(code, format!("no effect is open under `{label}`")));
        };
        check_size(&payload)?;
        let (kind, offer) = (intent.kind.clone(), self.state.offer.clone());
        let mut heard = (status, payload);
        if heard.0 == Status::Ok {
            check_builtin_receipt(&kind, &heard.1)?;
            if !offer.accepts_receipt(&kind, &heard.1)? {
                heard = (Status::Error, BAD_RECEIPT.to_vec());
            }
        }
        self.state.intents.remove(label);
        self.state.closed.insert(label.to_owned());
        self.step(Cause::Receipt { label: label.to_owned(), kind, status: heard.0, payload: heard.1 })
    }

    /// The open effect of this label is not carried out.
    pub fn fail(&mut self, label: &str, code: &str, reason: &str) -> Result<Step, Failure> {
        self.receipt(label, Status::Error, EffectError { attempts: 1, ..EffectError::new(code, reason) })
    }

    /// Lets another world answer the open `world.call` of this label, in one step of each. A program that replies in a later step of
    /// its own is answered for with [`Self::receipt`].
    pub fn answer_call<Q: Program>(&mut self, label: &str, other: &mut TestWorld<Q>) -> Result<Step, Failure> {
        let Some(intent) = self.state.intents.get(label).filter(|intent| intent.kind == WorldCall::KIND) else {
            return Err(Failure::coded("RECEIPT_UNKNOWN", format!("no call is open under `{label}`")));
        };
        let WorldCall { event: schema, value, headers, correlation_id, .. } = intent.read()?;
        let sender = Some(Sender { world: host::world_id(), height: self.state.height });
        let origin = Origin {
            enqueued_at_ns: self.state.now_ns,
            correlation_id,
            wants_reply: true,
            sender,
            ..Origin::default()
        };
        let cause = Cause::Event { schema, value: cbor::encode(&value), key: None };
        match other.arrive(cause, origin, headers.into_iter().collect()) {
            Ok(Step { reply: Some(reply), .. }) => self.receipt(label, Status::Ok, reply),
            Ok(_) => Err(Failure::new(format!("the other world did not reply to `{label}` in this step"))),
            Err(refused) if refused.code == "EVENT_INVALID" => self.fail(label, refused.code, &refused.reason),
            Err(failed) => {
                let (failed_code, failed_at) = (Some(failed.code.to_owned()), Some(other.state.height));
                let error = EffectError::new("CALL_FAILED", failed.reason);
                self.receipt(label, Status::Error, EffectError { attempts: 1, failed_code, failed_at, ..error })
            }
        }
    }

    /// The timer of this label fires; the clock is at least where it is due.
    pub fn fire(&mut self, label: &str) -> Result<Step, Failure> {
        let Some(timer) = self.state.timers.remove(label) else {
            return Err(Failure::coded("TIMER_UNKNOWN", format!("no timer is set under `{label}`")));
        };
        self.state.now_ns = self.state.now_ns.max(timer.due_ns);
        self.step(Cause::Timer { label: label.to_owned(), payload: cbor::encode(&timer.payload) })
    }

    /// Any other cause.
    pub fn step(&mut self, cause: Cause) -> Result<Step, Failure> {
        let origin = Origin { enqueued_at_ns: self.state.now_ns, wants_reply: true, ..Origin::default() };
        self.arrive(cause, origin, Vec::new())
    }

    /// The same with all that its sender said beside it.
    pub fn arrive(&mut self, cause: Cause, origin: Origin, headers: Vec<(String, String)>) -> Result<Step, Failure> {
        if let Cause::Event { schema, value, .. } = &cause {
            check_size(value)?;
            self.state.offer.check_event(schema, value)?;
        }
        let seq = self.state.begin();
        let before = self.state.clone();
        self.state.headers = headers;
        let event = Event { seq: seq.clone(), origin, cause };
        let (mut state, handled) = state::lend(self.state.clone(), || P::handle(&mut World::new(), &event));
        let mut step = std::mem::take(&mut state.step);
        self.state = if handled.is_ok() { state } else { before };
        handled?;
        step.reply = step.replies.remove(&seq);
        Ok(step)
    }

    pub fn query(&self, name: &str, params: impl Serialize) -> Result<Value, Failure> {
        let params = cbor::to_vec(&params)?;
        self.state.offer.check_query(name, &params)?;
        let params = cbor::decode(&params)?;
        let mut state = self.state.clone();
        state.begin();
        state::lend(state, || P::query(&World::new(), name, params)).1
    }

    /// The value of a cell.
    pub fn cell(&self, key: &str) -> Option<Value> {
        self.state.cells.get(key).and_then(|bytes| cbor::decode(bytes).ok())
    }

    /// All cells, as bytes.
    pub fn cells(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.state.cells
    }

    /// The labels of open effects.
    pub fn open(&self) -> Vec<&str> {
        self.state.intents.keys().map(String::as_str).collect()
    }

    /// The labels of timers that are set.
    pub fn timers(&self) -> Vec<&str> {
        self.state.timers.keys().map(String::as_str).collect()
    }
}
