//! The interface of a program, and the whole of its surroundings.
//!
//! Native programs and WASM components stand behind the same traits. There is no clock, no randomness and
//! no I/O but what [`Host`] gives, and all of that comes from the record, so a replay sees the same.

use crate::cells::Entry;
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, ParseIdError, ProgramAddress, UniverseId, WorldAddress, WorldId,
    child::ChildId,
    pool::AuthorityChange,
    record::{Origin, ReceiptStatus},
};
use std::{collections::BTreeMap, str::FromStr};

/// The code of a world.
pub trait Program: Send + Sync {
    /// Takes one event. An error throws away all that the step did; the world continues.
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure>;

    /// Answers a question about the world, and changes nothing.
    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let _ = (view, params);
        Err(Failure::new(format!("this program answers no query `{name}`")))
    }
}

/// An input that reaches a program.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The place of the event in the inbox: where a reply goes.
    pub seq: InboxSeq,
    pub origin: &'a Origin,
    pub cause: Cause<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// An event of the program's own vocabulary; its value is canonical CBOR that satisfies the schema.
    Event {
        schema: &'a str,
        value: &'a [u8],
        key: Option<&'a str>,
    },
    /// The one answer to the intent that was emitted under this label. An answer that does not satisfy
    /// the manifest's schema arrives as an error whose payload is a text.
    Receipt {
        label: &'a str,
        kind: &'a str,
        status: ReceiptStatus,
        payload: &'a [u8],
    },
    Message {
        inbox: &'a str,
        payload: &'a [u8],
        headers: &'a BTreeMap<String, String>,
    },
    Timer {
        label: &'a str,
        payload: &'a [u8],
    },
    /// This program takes over from the one of another manifest. If it fails here, it does not.
    Upgraded {
        from: Hash,
    },
}

/// The host calls of a query.
pub trait View {
    fn world(&self) -> WorldId;

    fn universe(&self) -> UniverseId;

    /// The height of the record that is being handled; for a query, the next height.
    fn height(&self) -> Height;

    /// The world's clock, which never goes back.
    fn logical_now_ns(&self) -> u64;

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stop>;

    /// Cells whose keys begin with `prefix` and come after `after`, in order.
    fn scan(&mut self, prefix: &str, after: Option<&str>, items_max: usize) -> Result<Vec<Entry>, Stop>;

    /// A line for people. It is no part of the outcome, and is dropped when there are too many.
    fn log(&mut self, level: Level, text: &str);

    /// Uses up budget for work that the host does not see, such as a guest's instructions.
    fn charge(&mut self, units: u64) -> Result<(), Stop>;

    /// A budget that the host does not count is used up: the step fails, and that is journaled.
    fn exhaust(&mut self, what: &'static str) -> Stop;

    /// Refuses an argument that no program may pass: the step fails, and that is journaled.
    fn refuse(&mut self, why: &str) -> Stop;

    /// The node cannot finish the step, for a reason that is not the program's: nothing of it is journaled, and it
    /// is run again.
    fn abandon(&mut self, code: Code, why: &str) -> Stop;
}

/// The host calls of a step.
pub trait Host: View {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Stop>;

    fn delete(&mut self, key: &str) -> Result<(), Stop>;

    /// Asks for an external effect. Its receipt comes back under the label, which names it while it is
    /// open; an empty label is filled in. `params` is canonical CBOR.
    fn emit(&mut self, kind: &str, params: &[u8], label: &str) -> Result<(), EmitError>;

    /// Withdraws an open intent. Says whether there was one.
    fn cancel(&mut self, label: &str) -> Result<bool, Stop>;

    /// Sets a timer, in place of the one with the same label. One in the past is due at once.
    fn set_timer(&mut self, label: &str, due_ns: u64, payload: &[u8]) -> Result<(), EmitError>;

    fn cancel_timer(&mut self, label: &str) -> Result<bool, Stop>;

    /// Sends to another world. Whether it arrived comes back as a receipt under the label.
    fn send(&mut self, to: WorldId, message: &Outgoing<'_>, label: &str) -> Result<(), EmitError> {
        self.send_with(to, message, &SendOptions::default(), label)
    }

    /// As [`Self::send`], with what the program says beside it.
    fn send_with(
        &mut self,
        to: WorldId,
        message: &Outgoing<'_>,
        options: &SendOptions<'_>,
        label: &str,
    ) -> Result<(), EmitError> {
        self.send_to(&to.into(), message, options, label)
    }

    /// The same to a world by its id or its name. A name is looked up in the universe that it is sent to, when it is sent.
    fn send_to(
        &mut self,
        to: &WorldAddress,
        message: &Outgoing<'_>,
        options: &SendOptions<'_>,
        label: &str,
    ) -> Result<(), EmitError>;

    /// Asks for a new world that runs a manifest. Its id is known at once, whether it began comes back as
    /// a receipt under the label. The name of a program is looked up when the world is made: for its newest version then.
    fn spawn(
        &mut self,
        program: &ProgramAddress,
        first: Option<&Outgoing<'_>>,
        label: &str,
    ) -> Result<WorldId, EmitError>;

    /// Asks for a child: `params` are [`spec_params`](mundi_model::child::spec_params). Its id is known at once; that it started and how it ended
    /// arrive as causes ([`Cause::child`]). It is never started twice.
    fn spawn_child(&mut self, params: &[u8], label: &str) -> Result<ChildId, EmitError>;

    /// Answers the call that arrived at this place of the inbox, now or in an earlier step.
    fn reply(&mut self, to: InboxSeq, payload: &[u8]) -> Result<(), Stop>;

    /// The next number of a sequence that the record's seed determines.
    fn random(&mut self) -> Result<u64, Stop>;

    /// Publishes, in the transaction of the turn, that the holder of a lease of this pool has authority from here on, or has none any more.
    /// For the native program of pools; components have no call for it.
    fn publish_authority(&mut self, change: AuthorityChange) -> Result<(), Stop>;
}

/// Reads an id or a name that a program wrote as a text. What is none ends the step.
pub fn read_text<T: FromStr<Err = ParseIdError>>(view: &mut dyn View, text: &str) -> Result<T, Stop> {
    text.parse().map_err(|error: ParseIdError| view.refuse(&error.to_string()))
}

/// A message or a delayed event to another world.
#[derive(Debug, Clone, Copy)]
pub enum Outgoing<'a> {
    Event { schema: &'a str, value: &'a [u8] },
    Message { inbox: &'a str, payload: &'a [u8], headers: &'a BTreeMap<String, String> },
}

/// Options that a program may set beside a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions<'a> {
    /// The universe of the world that it goes to: the sender's own if absent. Another one must accept messages from here.
    pub universe: Option<UniverseId>,
    /// Arrives as [`Origin::correlation_id`].
    pub correlation_id: Option<&'a str>,
    /// Arrive as [`Origin::headers`] of an event, and with those of a message.
    pub headers: Option<&'a BTreeMap<String, String>>,
    /// The name under which it is enqueued at most once, in place of the intent's; only where the manifest allows it.
    pub message_id: Option<Hash>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The step is over. Whatever the program does now is thrown away; it should return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the step is over")]
pub struct Stop;

/// Why an intent was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The program may continue without it.
    #[error("the world has as many open intents as it may have")]
    OpenIntentsFull,
    /// The program may continue without it.
    #[error("the world has as many timers as it may have")]
    TimersFull,
    #[error(transparent)]
    Stop(#[from] Stop),
}

impl Coded for EmitError {
    fn code(&self) -> Code {
        match self {
            Self::OpenIntentsFull => Code::OpenIntentsFull,
            Self::TimersFull => Code::TimersFull,
            Self::Stop(_) => Code::OutputRefused,
        }
    }
}

/// A program's own reason to give up a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// The code is part of the outcome, the reason is for people.
    pub(crate) code: Code,
    pub reason: String,
}

impl Failure {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { code: Code::ProgramFailed, reason: reason.into() }
    }

    /// The machine that runs the program stopped it: it did what no program may do.
    pub fn trapped(reason: impl Into<String>) -> Self {
        Self { code: Code::ProgramTrapped, reason: reason.into() }
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Self::new(stop.to_string())
    }
}

impl From<EmitError> for Failure {
    fn from(error: EmitError) -> Self {
        Self::new(error.to_string())
    }
}
