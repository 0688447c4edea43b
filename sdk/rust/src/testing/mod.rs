//! A world for tests, without a server: events go in, and what follows is there to be looked at.
//!
//! It keeps to the rules that a program notices: a step that fails leaves nothing behind, labels name what is open,
//! receipts and timers come as steps of their own. The bounds of the kernel are not checked here.

pub(crate) mod state;

use crate::{Cause, Event, Failure, Origin, Program, Status, Value, World, cbor};
use serde::Serialize;
use state::State;
use std::{collections::BTreeMap, marker::PhantomData};

/// A world of a program.
pub struct TestWorld<P> {
    state: State,
    program: PhantomData<P>,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// The answer to the event itself.
    pub reply: Option<Value>,
    /// Answers to earlier events, by their places.
    pub replies: BTreeMap<String, Value>,
    pub intents: Vec<Intent>,
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
    pub params: Value,
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
    pub fn new() -> Self {
        Self { state: State::new(), program: PhantomData }
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
        let Some(intent) = self.state.intents.remove(label) else {
            return Err(Failure::new(format!("no effect is open under `{label}`")));
        };
        let payload = cbor::to_vec(&payload)?;
        self.step(Cause::Receipt { label: label.to_owned(), kind: intent.kind, status, payload })
    }

    /// The timer of this label fires; the clock is at least where it is due.
    pub fn fire(&mut self, label: &str) -> Result<Step, Failure> {
        let Some(timer) = self.state.timers.remove(label) else {
            return Err(Failure::new(format!("no timer is set under `{label}`")));
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
        let params = serde_json::to_value(params)?;
        state::lend(self.state.clone(), || P::query(&World::new(), name, params)).1
    }

    /// What a cell holds.
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
