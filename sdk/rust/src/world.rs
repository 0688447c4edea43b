//! The world that a program is the code of.

use crate::{Effect, Failure, Outgoing, SendOptions, cbor, host, kinds::WorldCall};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

/// All that a program can do. There is no other clock, randomness or I/O: what is not here does not exist in a replay.
///
/// A call that breaks a bound ends the step at once, and does not return.
#[derive(Debug)]
pub struct World(());

/// The world has as many as its manifest allows; the program may go on without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    OpenIntents,
    Timers,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenIntents => "the world has as many open intents as it may have",
            Self::Timers => "the world has as many timers as it may have",
        })
    }
}

impl std::error::Error for Full {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl World {
    /// Only a host makes one: for each step anew.
    pub(crate) fn new() -> Self {
        Self(())
    }

    pub fn id(&self) -> String {
        host::world_id()
    }

    /// The height of the record that is being handled; in a query, the next height.
    pub fn height(&self) -> u64 {
        host::height()
    }

    /// The world's clock, which never goes back.
    pub fn now_ns(&self) -> u64 {
        host::now_ns()
    }

    /// The headers that came with the event or message that is being handled.
    pub fn headers(&self) -> Vec<(String, String)> {
        host::headers()
    }

    /// The value of a cell.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Failure> {
        Ok(host::get(key).map(|bytes| cbor::from_slice(&bytes)).transpose()?)
    }

    pub fn get_bytes(&self, key: &str) -> Option<Vec<u8>> {
        host::get(key)
    }

    /// Cells whose keys begin with `prefix` and come after `after`, in order.
    pub fn scan<T: DeserializeOwned>(
        &self,
        prefix: &str,
        after: Option<&str>,
        items_max: u32,
    ) -> Result<Vec<(String, T)>, Failure> {
        let read = |(key, bytes): (String, Vec<u8>)| Ok((key, cbor::from_slice(&bytes)?));
        host::scan(prefix, after, items_max).into_iter().map(read).collect()
    }

    /// The same, as bytes.
    pub fn scan_bytes(&self, prefix: &str, after: Option<&str>, items_max: u32) -> Vec<(String, Vec<u8>)> {
        host::scan(prefix, after, items_max)
    }

    /// A line for people. It is no part of the outcome.
    pub fn log(&self, level: Level, text: &str) {
        host::log(level, text);
    }

    pub fn put(&mut self, key: &str, value: &impl Serialize) -> Result<(), Failure> {
        host::put(key, &cbor::to_vec(value)?);
        Ok(())
    }

    pub fn put_bytes(&mut self, key: &str, value: &[u8]) {
        host::put(key, value);
    }

    pub fn delete(&mut self, key: &str) {
        host::delete(key);
    }

    /// Asks for an effect. Its receipt comes back under the label, which names it while it is open.
    pub fn emit(&mut self, kind: &str, params: &impl Serialize, label: &str) -> Result<(), Failure> {
        Ok(host::emit(kind, &cbor::to_vec(params)?, label)?)
    }

    /// The same for an effect with a type: [`Effect`] is made from `mundi.json`.
    pub fn ask<E: Effect>(&mut self, effect: &E, label: &str) -> Result<(), Failure> {
        self.emit(E::KIND, effect, label)
    }

    /// Withdraws an open effect. Says whether there was one.
    pub fn cancel(&mut self, label: &str) -> bool {
        host::cancel(label)
    }

    /// Sets a timer, in place of the one with the same label. One in the past is due at once.
    pub fn set_timer(&mut self, label: &str, due_ns: u64, payload: &impl Serialize) -> Result<(), Failure> {
        Ok(host::set_timer(label, due_ns, &cbor::to_vec(payload)?)?)
    }

    /// The same, so many milliseconds from now.
    pub fn set_timer_in_ms(&mut self, label: &str, in_ms: u64, payload: &impl Serialize) -> Result<(), Failure> {
        let due_ns = self.now_ns().saturating_add(in_ms.saturating_mul(1_000_000));
        self.set_timer(label, due_ns, payload)
    }

    pub fn cancel_timer(&mut self, label: &str) -> bool {
        host::cancel_timer(label)
    }

    /// Sends to another world, by its id or its name. Whether it arrived comes back as a receipt under the label.
    pub fn send(&mut self, to: &str, what: &Outgoing, label: &str) -> Result<(), Failure> {
        Ok(host::send(to, what, label)?)
    }

    /// The same, with what is said beside it: where it goes, what it is correlated by, headers, its message id.
    pub fn send_with(&mut self, to: &str, what: &Outgoing, options: &SendOptions, label: &str) -> Result<(), Failure> {
        Ok(host::send_with(to, what, options, label)?)
    }

    /// Calls another world, by its id or its name: what its program replies comes back as a receipt under the label, which
    /// [`Event::reply`](crate::Event::reply) reads. More can be said with [`WorldCall`] and [`World::ask`].
    pub fn call(&mut self, to: &str, event: &str, value: &impl Serialize, label: &str) -> Result<(), Failure> {
        self.ask(&WorldCall::new(to, event, value)?, label)
    }

    /// Asks for a new world: of a manifest by its hash, or of a program by its name, `todo` for the newest version or `todo@2`. Its id is
    /// known at once.
    pub fn spawn(&mut self, program: &str, first: Option<&Outgoing>, label: &str) -> Result<String, Failure> {
        Ok(host::spawn(program, first, label)?)
    }

    /// Answers the call that arrived at this place of the inbox.
    pub fn reply(&mut self, to: &str, value: &impl Serialize) -> Result<(), Failure> {
        host::reply(to, &cbor::to_vec(value)?);
        Ok(())
    }

    /// The next number of a sequence that the record determines.
    pub fn random(&mut self) -> u64 {
        host::random()
    }
}
