//! Programs of the Rust SDK, with their durable functions, as native programs.
//!
//! The source that is a component elsewhere runs in the process of its kernel: [`Native`] gives an SDK program the kernel's host for each step.
//! Cells, labels and results are the same as those of the component; only fuel is not counted.
//!
//! ```
//! use mundi_kernel::Registry;
//! use mundi_native::Native;
//! use mundi_sdk::{Event, Failure, Program, World, durable, functions::{Ctx, FunctionError, Functions}};
//!
//! #[durable]
//! async fn order(ctx: Ctx, cents: u64) -> Result<String, FunctionError> {
//!     ctx.effect("payment.charge", &cents).await
//! }
//!
//! struct Shop;
//!
//! impl Program for Shop {
//!     const OFFER: &'static str = r#"{"events": {"order": true}, "effects": {"payment.charge": {}}}"#;
//!
//!     fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
//!         Functions::new(Self::OFFER).with::<order>().handle(world, event).map(drop)
//!     }
//! }
//!
//! let program = Registry::new().register_native("shop", 1, Native::<Shop>::default());
//! assert!(program.to_string().starts_with("h_"));
//! ```
//!
//! This crate must never know a store, a component or an async runtime.

use mundi_kernel::program::{self as kernel, EmitError, Host, Stop, View, read_text};
use mundi_model::{InboxSeq, ParseIdError, ProgramAddress, WorldAddress, record::ReceiptStatus};
use mundi_sdk::{
    Cause, Event, Full, Level, Origin, Outgoing, Program, SendOptions, Sender, Status,
    native::{self, Stopped},
};
use std::{collections::BTreeMap, marker::PhantomData, str::FromStr};

/// An SDK program as a native one.
pub struct Native<P>(PhantomData<fn() -> P>);

impl<P> Default for Native<P> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<P: Program> kernel::Program for Native<P> {
    fn handle(&self, host: &mut dyn Host, event: &kernel::Event<'_>) -> Result<(), kernel::Failure> {
        let headers = headers_of(event);
        let event = event_of(event);
        match native::handle::<P>(&mut Lent { of: Of::Step(host), headers }, &event) {
            Ok(handled) => handled.map_err(|failure| kernel::Failure::new(failure.reason)),
            Err(Stopped) => Err(Stop.into()),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, kernel::Failure> {
        match native::query::<P>(&mut Lent { of: Of::Query(view), headers: Vec::new() }, name, params) {
            Ok(answered) => answered.map_err(|failure| kernel::Failure::new(failure.reason)),
            Err(Stopped) => Err(Stop.into()),
        }
    }
}

enum Of<'a> {
    Step(&'a mut dyn Host),
    Query(&'a mut dyn View),
}

/// The kernel's host, as the SDK calls it.
struct Lent<'a> {
    of: Of<'a>,
    /// Of the event that is being handled.
    headers: Vec<(String, String)>,
}

fn stopped(_: Stop) -> Stopped {
    Stopped
}

/// An error after which the program may continue is an answer; any other ends the step.
fn full<T>(result: Result<T, EmitError>) -> Result<Result<T, Full>, Stopped> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EmitError::OpenIntentsFull) => Ok(Err(Full::OpenIntents)),
        Err(EmitError::TimersFull) => Ok(Err(Full::Timers)),
        Err(EmitError::Stop(_)) => Err(Stopped),
    }
}

impl Lent<'_> {
    fn view(&mut self) -> &mut dyn View {
        match &mut self.of {
            Of::Step(host) => &mut **host,
            Of::Query(view) => &mut **view,
        }
    }

    /// A query has none: it gets a `World` that it cannot change, so it never asks for one.
    fn host(&mut self) -> Result<&mut dyn Host, Stopped> {
        match &mut self.of {
            Of::Step(host) => Ok(&mut **host),
            Of::Query(view) => Err(stopped(view.refuse("a query changes nothing"))),
        }
    }

    /// An id or a name that the program wrote.
    fn id<T: FromStr<Err = ParseIdError>>(&mut self, text: &str) -> Result<T, Stopped> {
        read_text(self.view(), text).map_err(stopped)
    }
}

/// Something to be sent, with its headers in the order that the kernel keeps them in.
struct Sendable<'a> {
    what: &'a Outgoing,
    headers: BTreeMap<String, String>,
}

impl<'a> Sendable<'a> {
    fn new(what: &'a Outgoing) -> Self {
        let headers = match what {
            Outgoing::Message { headers, .. } => headers.iter().cloned().collect(),
            Outgoing::Event { .. } => BTreeMap::new(),
        };
        Self { what, headers }
    }

    fn outgoing(&self) -> kernel::Outgoing<'_> {
        match self.what {
            Outgoing::Event { schema, value } => kernel::Outgoing::Event { schema, value },
            Outgoing::Message { inbox, payload, .. } => {
                kernel::Outgoing::Message { inbox, payload, headers: &self.headers }
            }
        }
    }
}

impl native::Host for Lent<'_> {
    fn world_id(&mut self) -> String {
        self.view().world().to_string()
    }

    fn height(&mut self) -> u64 {
        self.view().height().get()
    }

    fn now_ns(&mut self) -> u64 {
        self.view().logical_now_ns()
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        self.headers.clone()
    }

    fn log(&mut self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => kernel::Level::Debug,
            Level::Info => kernel::Level::Info,
            Level::Warn => kernel::Level::Warn,
            Level::Error => kernel::Level::Error,
        };
        self.view().log(level, text);
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stopped> {
        self.view().get(key).map_err(stopped)
    }

    fn scan(&mut self, prefix: &str, after: Option<&str>, items_max: u32) -> Result<Vec<(String, Vec<u8>)>, Stopped> {
        self.view().scan(prefix, after, items_max as usize).map_err(stopped)
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Stopped> {
        self.host()?.put(key, value).map_err(stopped)
    }

    fn delete(&mut self, key: &str) -> Result<(), Stopped> {
        self.host()?.delete(key).map_err(stopped)
    }

    fn emit(&mut self, kind: &str, params: &[u8], label: &str) -> Result<Result<(), Full>, Stopped> {
        full(self.host()?.emit(kind, params, label))
    }

    fn cancel(&mut self, label: &str) -> Result<bool, Stopped> {
        self.host()?.cancel(label).map_err(stopped)
    }

    fn set_timer(&mut self, label: &str, due_ns: u64, payload: &[u8]) -> Result<Result<(), Full>, Stopped> {
        full(self.host()?.set_timer(label, due_ns, payload))
    }

    fn cancel_timer(&mut self, label: &str) -> Result<bool, Stopped> {
        self.host()?.cancel_timer(label).map_err(stopped)
    }

    fn send_with(
        &mut self,
        to: &str,
        what: &Outgoing,
        options: &SendOptions,
        label: &str,
    ) -> Result<Result<(), Full>, Stopped> {
        let to: WorldAddress = self.id(to)?;
        let headers: BTreeMap<_, _> = options.headers.iter().cloned().collect();
        let options = kernel::SendOptions {
            universe: options.universe.as_deref().map(|id| self.id(id)).transpose()?,
            correlation_id: options.correlation_id.as_deref(),
            headers: Some(&headers),
            message_id: options.message_id.as_deref().map(|id| self.id(id)).transpose()?,
        };
        full(self.host()?.send_to(&to, &Sendable::new(what).outgoing(), &options, label))
    }

    fn spawn(&mut self, program: &str, first: Option<&Outgoing>, label: &str) -> Result<Result<String, Full>, Stopped> {
        let program: ProgramAddress = self.id(program)?;
        let first = first.map(Sendable::new);
        let first = first.as_ref().map(Sendable::outgoing);
        Ok(full(self.host()?.spawn(&program, first.as_ref(), label))?.map(|world| world.to_string()))
    }

    fn reply(&mut self, to: &str, payload: &[u8]) -> Result<(), Stopped> {
        let to: InboxSeq = self.id(to)?;
        self.host()?.reply(to, payload).map_err(stopped)
    }

    fn random(&mut self) -> Result<u64, Stopped> {
        self.host()?.random().map_err(stopped)
    }
}

/// The headers that the sender set beside an event, or in a message.
fn headers_of(event: &kernel::Event<'_>) -> Vec<(String, String)> {
    let headers = match event.cause {
        kernel::Cause::Message { headers, .. } => headers,
        _ => &event.origin.headers,
    };
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn event_of(event: &kernel::Event<'_>) -> Event {
    let origin = event.origin;
    Event {
        seq: event.seq.to_string(),
        origin: Origin {
            enqueued_at_ns: origin.enqueued_at_ns,
            correlation_id: origin.correlation_id.clone(),
            trace: origin.trace.clone(),
            wants_reply: origin.wants_reply,
            sender: origin.sender.map(|sender| Sender { world: sender.world.to_string(), height: sender.height.get() }),
        },
        cause: cause_of(&event.cause),
    }
}

fn cause_of(cause: &kernel::Cause<'_>) -> Cause {
    match cause {
        kernel::Cause::Event { schema, value, key } => {
            Cause::Event { schema: (*schema).to_owned(), value: value.to_vec(), key: key.map(str::to_owned) }
        }
        kernel::Cause::Receipt { label, kind, status, payload } => Cause::Receipt {
            label: (*label).to_owned(),
            kind: (*kind).to_owned(),
            status: match status {
                ReceiptStatus::Ok => Status::Ok,
                ReceiptStatus::Error => Status::Error,
                ReceiptStatus::Timeout => Status::Timeout,
            },
            payload: payload.to_vec(),
        },
        kernel::Cause::Message { inbox, payload, headers } => Cause::Message {
            inbox: (*inbox).to_owned(),
            payload: payload.to_vec(),
            headers: headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        },
        kernel::Cause::Timer { label, payload } => {
            Cause::Timer { label: (*label).to_owned(), payload: payload.to_vec() }
        }
        kernel::Cause::Upgraded { from } => Cause::Upgraded { from: from.to_string() },
    }
}
