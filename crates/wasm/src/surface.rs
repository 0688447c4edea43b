//! The host's side of the contract: each import of a component is one call of the kernel's host.
//!
//! A refusal of the kernel ends the step: the call traps, and the kernel remembers the reason. Arguments of a component are
//! bounded before it is copied (`set_hostcall_fuel`), and checked by the kernel after.

use crate::{
    contract::mundi::program::{
        host::{Cell, Full, Host as Imports, Level, SendOptions},
        types::{Host as Types, Outgoing},
    },
    lend::Lent,
    program::{Bounds, Pacing},
};
use mundi_kernel::program::{self as kernel, EmitError, Stop, View, read_text};
use mundi_model::{ParseIdError, ProgramAddress, WorldAddress};
use std::{collections::BTreeMap, str::FromStr};

/// The data of a store: one step's host, what its instance may use, and the time that it may take.
pub(crate) struct Surface {
    pub(crate) lent: Lent,
    pub(crate) bounds: Bounds,
    /// Of the event that is being handled.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) pacing: Pacing,
}

/// Why a call of the host did not return.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallRefused {
    /// The kernel knows why.
    #[error("the step is over")]
    Stopped,
    #[error("`{0}` was called where there is no step: a query or a description changes nothing")]
    NoStep(&'static str),
    #[error("`{0}` was called where there is no world: a description depends on nothing")]
    NoWorld(&'static str),
}

impl From<Stop> for CallRefused {
    fn from(_: Stop) -> Self {
        Self::Stopped
    }
}

type Call<T> = Result<T, CallRefused>;

impl Surface {
    fn view(&mut self, call: &'static str) -> Call<&mut dyn kernel::View> {
        self.lent.view().ok_or(CallRefused::NoWorld(call))
    }

    fn host(&mut self, call: &'static str) -> Call<&mut dyn kernel::Host> {
        self.lent.host().ok_or(CallRefused::NoStep(call))
    }

    /// An id or a name in an argument of a call.
    fn id<T: FromStr<Err = ParseIdError>>(&mut self, call: &'static str, text: &str) -> Call<T> {
        let host: &mut dyn kernel::Host = self.host(call)?;
        let view: &mut dyn View = host;
        Ok(read_text(view, text)?)
    }
}

/// An error after which the program may continue is an answer; any other ends the step.
fn full<T>(result: Result<T, EmitError>) -> Call<Result<T, Full>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EmitError::OpenIntentsFull) => Ok(Err(Full::OpenIntents)),
        Err(EmitError::TimersFull) => Ok(Err(Full::Timers)),
        Err(EmitError::Stop(stop)) => Err(stop.into()),
    }
}

/// Something to be sent, with its headers in the order that the kernel keeps them in.
struct Sendable {
    what: Outgoing,
    headers: BTreeMap<String, String>,
}

impl Sendable {
    fn new(mut what: Outgoing) -> Self {
        let headers = match &mut what {
            Outgoing::Message(message) => std::mem::take(&mut message.headers).into_iter().collect(),
            Outgoing::Event(_) => BTreeMap::new(),
        };
        Self { what, headers }
    }

    fn outgoing(&self) -> kernel::Outgoing<'_> {
        match &self.what {
            Outgoing::Event(event) => kernel::Outgoing::Event { schema: &event.schema, value: &event.value },
            Outgoing::Message(message) => {
                kernel::Outgoing::Message { inbox: &message.inbox, payload: &message.payload, headers: &self.headers }
            }
        }
    }
}

impl Types for Surface {}

impl Imports for Surface {
    fn world_id(&mut self) -> wasmtime::Result<String> {
        Ok(self.view("world-id")?.world().to_string())
    }

    fn height(&mut self) -> wasmtime::Result<u64> {
        Ok(self.view("height")?.height().get())
    }

    fn now_ns(&mut self) -> wasmtime::Result<u64> {
        Ok(self.view("now-ns")?.logical_now_ns())
    }

    fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.view("get")?.get(&key).map_err(CallRefused::from)?)
    }

    fn scan(&mut self, prefix: String, after: Option<String>, items_max: u32) -> wasmtime::Result<Vec<Cell>> {
        let view = self.view("scan")?;
        let found = view.scan(&prefix, after.as_deref(), items_max as usize).map_err(CallRefused::from)?;
        Ok(found.into_iter().map(|(key, value)| Cell { key, value }).collect())
    }

    fn log(&mut self, level: Level, text: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => kernel::Level::Debug,
            Level::Info => kernel::Level::Info,
            Level::Warn => kernel::Level::Warn,
            Level::Error => kernel::Level::Error,
        };
        let view = self.view("log")?;
        // A native program pays nothing for a line, and a component could write millions.
        view.charge(1).map_err(CallRefused::from)?;
        view.log(level, &text);
        Ok(())
    }

    fn headers(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.view("headers")?.charge(1).map_err(CallRefused::from)?;
        Ok(self.headers.clone())
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<()> {
        Ok(self.host("put")?.put(&key, &value).map_err(CallRefused::from)?)
    }

    fn delete(&mut self, key: String) -> wasmtime::Result<()> {
        Ok(self.host("delete")?.delete(&key).map_err(CallRefused::from)?)
    }

    fn emit(&mut self, kind: String, params: Vec<u8>, label: String) -> wasmtime::Result<Result<(), Full>> {
        Ok(full(self.host("emit")?.emit(&kind, &params, &label))?)
    }

    fn cancel(&mut self, label: String) -> wasmtime::Result<bool> {
        Ok(self.host("cancel")?.cancel(&label).map_err(CallRefused::from)?)
    }

    fn set_timer(&mut self, label: String, due_ns: u64, payload: Vec<u8>) -> wasmtime::Result<Result<(), Full>> {
        Ok(full(self.host("set-timer")?.set_timer(&label, due_ns, &payload))?)
    }

    fn cancel_timer(&mut self, label: String) -> wasmtime::Result<bool> {
        Ok(self.host("cancel-timer")?.cancel_timer(&label).map_err(CallRefused::from)?)
    }

    fn send(&mut self, to: String, what: Outgoing, label: String) -> wasmtime::Result<Result<(), Full>> {
        let (to, options): (WorldAddress, _) = (self.id("send", &to)?, kernel::SendOptions::default());
        Ok(full(self.host("send")?.send_to(&to, &Sendable::new(what).outgoing(), &options, &label))?)
    }

    fn send_with(
        &mut self,
        to: String,
        what: Outgoing,
        options: SendOptions,
        label: String,
    ) -> wasmtime::Result<Result<(), Full>> {
        let to: WorldAddress = self.id("send-with", &to)?;
        let headers: BTreeMap<_, _> = options.headers.into_iter().collect();
        let options = kernel::SendOptions {
            universe: options.universe.map(|id| self.id("send-with", &id)).transpose()?,
            correlation_id: options.correlation_id.as_deref(),
            headers: Some(&headers),
            message_id: options.message_id.map(|id| self.id("send-with", &id)).transpose()?,
        };
        Ok(full(self.host("send-with")?.send_to(&to, &Sendable::new(what).outgoing(), &options, &label))?)
    }

    fn spawn(
        &mut self,
        manifest: String,
        first: Option<Outgoing>,
        label: String,
    ) -> wasmtime::Result<Result<String, Full>> {
        let program: ProgramAddress = self.id("spawn", &manifest)?;
        let first = first.map(Sendable::new);
        let first = first.as_ref().map(Sendable::outgoing);
        let spawned = full(self.host("spawn")?.spawn(&program, first.as_ref(), &label))?;
        Ok(spawned.map(|world| world.to_string()))
    }

    fn reply(&mut self, to: String, payload: Vec<u8>) -> wasmtime::Result<()> {
        let to = self.id("reply", &to)?;
        Ok(self.host("reply")?.reply(to, &payload).map_err(CallRefused::from)?)
    }

    fn random(&mut self) -> wasmtime::Result<u64> {
        Ok(self.host("random")?.random().map_err(CallRefused::from)?)
    }
}
