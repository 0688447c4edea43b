//! The same program without a component: in the process of its kernel, which lends it a host for each step.
//!
//! Only for those who embed a kernel: `mundi-native` makes a native program of an SDK program with it.

use crate::{Event, Failure, Full, Level, Outgoing, Program, SendOptions, World, cbor};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
};

/// The host has ended the step: whatever the program does now is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The host calls that a program makes through [`World`], as a kernel offers them.
pub trait Host {
    fn world_id(&mut self) -> String;
    fn height(&mut self) -> u64;
    fn now_ns(&mut self) -> u64;
    fn headers(&mut self) -> Vec<(String, String)>;
    fn log(&mut self, level: Level, text: &str);
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stopped>;
    fn scan(&mut self, prefix: &str, after: Option<&str>, items_max: u32) -> Result<Vec<(String, Vec<u8>)>, Stopped>;
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Stopped>;
    fn delete(&mut self, key: &str) -> Result<(), Stopped>;
    fn emit(&mut self, kind: &str, params: &[u8], label: &str) -> Result<Result<(), Full>, Stopped>;
    fn cancel(&mut self, label: &str) -> Result<bool, Stopped>;
    fn set_timer(&mut self, label: &str, due_ns: u64, payload: &[u8]) -> Result<Result<(), Full>, Stopped>;
    fn cancel_timer(&mut self, label: &str) -> Result<bool, Stopped>;
    fn send_with(
        &mut self,
        to: &str,
        what: &Outgoing,
        options: &SendOptions,
        label: &str,
    ) -> Result<Result<(), Full>, Stopped>;
    fn spawn(&mut self, program: &str, first: Option<&Outgoing>, label: &str) -> Result<Result<String, Full>, Stopped>;
    fn reply(&mut self, to: &str, payload: &[u8]) -> Result<(), Stopped>;
    fn random(&mut self) -> Result<u64, Stopped>;
}

thread_local! {
    static LENT: Cell<Option<NonNull<dyn Host>>> = const { Cell::new(None) };
}

/// Takes the host back, also if the program panics.
struct Loan(Option<NonNull<dyn Host>>);

impl Drop for Loan {
    fn drop(&mut self) {
        LENT.set(self.0);
    }
}

/// Runs one step of a program. The outer error says that the host has ended it.
pub fn handle<P: Program>(host: &mut dyn Host, event: &Event) -> Result<Result<(), Failure>, Stopped> {
    lend(host, || P::handle(&mut World::new(), event))
}

/// Answers a question about a world.
pub fn query<P: Program>(host: &mut dyn Host, name: &str, params: &[u8]) -> Result<Result<Vec<u8>, Failure>, Stopped> {
    lend(host, || Ok(cbor::encode(&P::query(&World::new(), name, cbor::decode(params)?)?)))
}

fn lend<R>(host: &mut dyn Host, run: impl FnOnce() -> R) -> Result<R, Stopped> {
    // SAFETY: only the lifetime changes. The pointer is in `LENT` until `_loan` is dropped, which is before this function returns or
    // unwinds; until then `host` is borrowed mutably here, and `call` is the only one that uses the pointer, on this thread.
    let lent =
        unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(NonNull::from(host)) };
    let _loan = Loan(LENT.replace(Some(lent)));
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| match panic.downcast::<Stopped>() {
        Ok(stopped) => *stopped,
        Err(panic) => resume_unwind(panic),
    })
}

/// Calls the host that is lent, if one is. A call that ends the step does not return.
pub(crate) fn call<R>(use_it: impl FnOnce(&mut dyn Host) -> Result<R, Stopped>) -> Option<R> {
    // While it is used nobody else can reach it: a host that calls a program of its own lends it another one.
    let mut lent = LENT.take()?;
    // SAFETY: see `lend`; it was taken out of its place, so this is the only reference.
    let used = use_it(unsafe { lent.as_mut() });
    LENT.set(Some(lent));
    Some(used.unwrap_or_else(|stopped| resume_unwind(Box::new(stopped))))
}
