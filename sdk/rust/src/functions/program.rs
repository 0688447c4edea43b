//! A program with durable functions: which event, receipt and timer goes to which instance.

use super::{
    Ctx, FunctionError,
    cells::{
        self, CALLERS_MAX, Cancel, Entry, EntryState, FORMAT, Failed, Head, INBOX, INSTANCES_MAX, Label, Print,
        SIGNALS_BYTES_MAX, SIGNALS_MAX, STATUS_BYTES_MAX, VALUE_BYTES_MAX, WAITERS_MAX, WOKEN_MAX, error_value,
        event_prefix, head_key, is_name, matches, print_of,
    },
    mutants::{Mutant, planted},
    rows::{self, Log, Tail},
    run::{Code, Returned, Returns, Run, execute},
};
use crate::{Cause, Event, Failure, Level, Status, Value, World, cbor, kinds::EffectError};
use serde::de::DeserializeOwned;
use std::{cell::RefCell, collections::BTreeMap, future::Future, rc::Rc};

const RETRY_MS: u64 = 1_000;
const RETRY_MS_MAX: u64 = 60_000;
/// Errors that another attempt does not mend.
const FINAL: [&str; 5] =
    ["EFFECT_CANCELLED", "EFFECT_SANDBOXED", "EFFECT_NOT_RECORDED", "EFFECT_DENIED", "UNIVERSE_DENIED"];

type Begin = Box<dyn Fn(Ctx, Value) -> Code>;

/// Whether a durable function took an event, or a handler is to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    Yes,
    /// The event is for no function, or for handlers, too.
    No,
}

/// A durable function that knows its name, made by [`#[durable]`](macro@crate::durable) of an `async fn` with a context and an input. The function
/// itself can still be called and awaited by others.
///
/// ```
/// use mundi_sdk::{durable, functions::{Ctx, Durable, FunctionError}};
///
/// #[durable]
/// async fn greet(ctx: Ctx, name: String) -> Result<String, FunctionError> {
///     ctx.sleep("1s")?.await?;
///     Ok(format!("Hello, {name}"))
/// }
///
/// // An event whose name is no name of a function in Rust.
/// #[durable("order.placed")]
/// pub async fn placed(ctx: Ctx, name: String) -> Result<String, FunctionError> {
///     greet(ctx, name).await
/// }
///
/// assert_eq!((greet::NAME, placed::NAME), ("greet", "order.placed"));
/// ```
///
/// Anything else is an error of the compiler:
///
/// ```compile_fail
/// # use mundi_sdk::{durable, functions::{Ctx, FunctionError}};
/// #[durable]
/// fn greet(ctx: Ctx, name: String) -> Result<String, FunctionError> {
///     Ok(name)
/// }
/// ```
///
/// ```compile_fail
/// # use mundi_sdk::{durable, functions::{Ctx, FunctionError}};
/// #[durable]
/// async fn greet(ctx: Ctx, name: String, greeting: String) -> Result<String, FunctionError> {
///     Ok(name)
/// }
/// ```
///
/// ```compile_fail
/// # use mundi_sdk::{durable, functions::{Ctx, FunctionError}};
/// #[durable(name = "greet")]
/// async fn greet(ctx: Ctx, name: String) -> Result<String, FunctionError> {
///     Ok(name)
/// }
/// ```
pub trait Durable {
    /// The name of the event that starts it.
    const NAME: &'static str;

    /// Adds it to the functions of a program: [`Functions::with`].
    fn register(functions: Functions) -> Functions;
}

/// The durable functions of a program.
pub struct Functions {
    functions: BTreeMap<String, Begin>,
    declared: Rc<Vec<String>>,
}

pub(super) fn failed(failure: Failure) -> FunctionError {
    FunctionError::new("FUNCTION_FAILED", failure.reason)
}

/// An error that ends the step: its text begins with the code, which is all that a component says.
fn refused(code: &'static str, message: impl std::fmt::Display) -> Failure {
    Failure::coded(code, format!("{code}: {message}"))
}

impl Functions {
    /// The offer is the text of the program's `mundi.json`.
    pub fn new(offer: &str) -> Self {
        let offer: Value = serde_json::from_str(offer).unwrap_or_default();
        let effects = offer["effects"].as_object();
        let declared = effects.map(|effects| effects.keys().cloned().collect()).unwrap_or_default();
        Self { functions: BTreeMap::new(), declared: Rc::new(declared) }
    }

    /// A function with the attribute [`#[durable]`](macro@crate::durable), under its own name.
    #[must_use]
    pub fn with<D: Durable>(self) -> Self {
        D::register(self)
    }

    /// A durable function, under the name of the event that starts it. It gives back any value, or a [`Done`](super::Done).
    #[must_use]
    pub fn durable<I, F, R>(mut self, name: &str, code: impl Fn(Ctx, I) -> F + Clone + 'static) -> Self
    where
        I: DeserializeOwned,
        F: Future<Output = Result<R, FunctionError>> + 'static,
        R: Returns,
    {
        let begin: Begin = Box::new(move |ctx, input| match serde_json::from_value::<I>(input) {
            Ok(input) => {
                let code = code(ctx, input);
                Box::pin(async move { code.await?.returned() })
            }
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        });
        self.functions.insert(name.to_owned(), begin);
        self
    }

    /// Takes what is for a function. What is for handlers, too, is answered by them.
    pub fn handle(&self, world: &mut World, event: &Event) -> Result<Handled, Failure> {
        let mut step = Instances { functions: self, world, given: event };
        match &event.cause {
            Cause::Event { schema, value, key } if self.functions.contains_key(schema) => {
                step.start(schema, cbor::decode(value)?, key.as_deref())?;
            }
            Cause::Event { schema, value, key } => {
                let taken_by = step.event(schema, &cbor::decode(value)?, key.as_deref())?;
                if !taken_by.is_empty() && event.origin.wants_reply {
                    world.reply(&event.seq, &serde_json::json!({ "taken_by": taken_by }))?;
                }
                return Ok(if taken_by.is_empty() { Handled::No } else { Handled::Yes });
            }
            Cause::Receipt { label, status, payload, .. } => {
                let Some(label) = Label::parse(label) else { return Ok(Handled::No) };
                step.receipt(&label, *status, payload)?;
            }
            Cause::Timer { label, .. } => {
                let Some(label) = Label::parse(label) else { return Ok(Handled::No) };
                step.timer(&label)?;
            }
            Cause::Message { inbox, payload, .. } if inbox == INBOX => step.command(&cbor::decode(payload)?)?,
            // The start of a child of a function: it waits for the end.
            Cause::Message { inbox, headers, .. } if inbox == "child.started" => {
                let mut labels = headers.iter().filter(|(name, _)| name == "label");
                return Ok(match labels.any(|(_, label)| Label::parse(label).is_some()) {
                    true => Handled::Yes,
                    false => Handled::No,
                });
            }
            Cause::Message { .. } => return Ok(Handled::No),
            Cause::Upgraded { .. } => {
                step.check()?;
                return Ok(Handled::No);
            }
        }
        Ok(Handled::Yes)
    }
}

/// The instances of a world, in one step.
struct Instances<'a> {
    functions: &'a Functions,
    world: &'a mut World,
    given: &'a Event,
}

impl Instances<'_> {
    /// Starts an instance, or finds the one that has this key.
    fn start(&mut self, function: &str, input: Value, key: Option<&str>) -> Result<(), Failure> {
        let key = key.filter(|key| !key.is_empty()).unwrap_or(&self.given.seq).to_owned();
        if !is_name(&key) {
            let message = format!("`{key}` is no key: 1 to 128 of letters, digits and `-_.:@`");
            return Err(refused("FUNCTION_KEY_INVALID", message));
        }
        let print = print_of(&input);
        let head = cells::head(self.world, &format!("{function}/{key}"))?;
        if let Some(head) = head.filter(|head| head.ended_ns.is_none() || !planted(Mutant::EndedRunsAgain)) {
            return self.again(head, print);
        }
        if print.0 > VALUE_BYTES_MAX {
            let message = format!("the input has {} bytes, more than {VALUE_BYTES_MAX}", print.0);
            return Err(refused("FUNCTION_INPUT_TOO_LARGE", message));
        }
        let mut totals = cells::totals(self.world)?;
        if totals.running >= INSTANCES_MAX {
            let message = format!("the world has {INSTANCES_MAX} instances that have not ended");
            return Err(refused("FUNCTIONS_FULL", message));
        }
        totals.running += 1;
        self.world.put("$fn/m", &totals)?;
        let head = Head {
            format: FORMAT,
            function: function.to_owned(),
            key,
            state: "running".to_owned(),
            paused: None,
            run: 0,
            seed: self.world.random() >> 11,
            input: print,
            began_ns: self.world.now_ns(),
            asked: 0,
            resolved: 0,
            ran: 0,
            waits: Vec::new(),
            callers: if self.given.origin.wants_reply { vec![self.given.seq.clone()] } else { Vec::new() },
            status: None,
            signals: Vec::new(),
            cancel: None,
            result: None,
            error: None,
            ended_ns: None,
        };
        let log = self.put_start(&head, input)?;
        self.advance(head, log).map(drop)
    }

    fn put_start(&mut self, head: &Head, input: Value) -> Result<Log, Failure> {
        let mut entry = Entry::new(self.world, "start", &head.function, print_of(&input));
        (entry.state, entry.value) = (EntryState::Ok, input);
        let mut tail = Tail::default();
        rows::put_entry(self.world, head, (0, &entry), Some(&mut tail))?;
        Ok(Log { entries: vec![entry], tail })
    }

    /// The key is in use: the same call gets the same answer, another one is refused.
    fn again(&mut self, mut head: Head, input: Print) -> Result<(), Failure> {
        let instance = head.instance();
        if head.input != input {
            let message = format!("{instance} was started with another input: choose another key");
            return Err(refused("FUNCTION_KEY_REUSED", message));
        }
        if !self.given.origin.wants_reply {
            return Ok(());
        }
        if head.ended_ns.is_some() {
            return self.world.reply(&self.given.seq, &answer(&head));
        }
        if head.callers.len() >= CALLERS_MAX {
            return Err(refused("FUNCTIONS_FULL", format!("{CALLERS_MAX} callers wait for {instance}")));
        }
        head.callers.push(self.given.seq.clone());
        self.world.put(&head_key(&instance), &head)
    }

    /// Runs an instance as far as it comes, and keeps what has become of it. Says its state.
    fn advance(&mut self, mut head: Head, log: Log) -> Result<String, Failure> {
        let function = head.function.clone();
        let run = Run::new(head.clone(), log, self.functions.declared.clone(), false);
        if head.paused.is_some() {
            cells::put_head(self.world, &mut head, &run.open())?;
            return Ok(head.state);
        }
        let Some(begin) = self.functions.functions.get(&function) else {
            let message = format!("the program has no durable function `{function}`");
            let error = Failed { code: "FUNCTION_DIVERGED".to_owned(), message, r#await: 0 };
            return self.stand(head, &run, error);
        };
        let input = run.entries[0].value.clone();
        let run = Rc::new(RefCell::new(run));
        let outcome = execute(&run, begin(Ctx::of(&run), input));
        let run = &mut *run.borrow_mut();
        if let Some(diverged) = run.diverged.clone() {
            let code = "FUNCTION_DIVERGED".to_owned();
            return self.stand(head, run, Failed { code, message: diverged.message, r#await: diverged.number });
        }
        head = run.head.clone();
        head.ran = run.ran();
        let status = run.status.take();
        let status_bytes = status.as_ref().map_or(0, |status| print_of(status).0);
        if status_bytes > STATUS_BYTES_MAX {
            let message =
                format!("the status has {status_bytes} bytes, more than {STATUS_BYTES_MAX}: put it into a cell");
            return self.end(run, head, Err(FunctionError::new("FUNCTION_RESULT_TOO_LARGE", message)));
        }
        head.status = status.or(head.status);
        if head.state == "diverged" {
            (head.state, head.error) = ("running".to_owned(), None);
        }
        let open = run.open();
        let outcome = outcome.unwrap_or_else(|| {
            let message = "the function waits for something that never comes: wait for what `ctx` gives, or for futures made of that";
            Err(FunctionError::new("FUNCTION_STUCK", message))
        });
        if !open.is_empty() && matches!(&outcome, Err(error) if error.code() == "FUNCTION_STUCK") {
            rows::compact(self.world, &head, &run.entries, &mut run.tail)?;
            cells::put_head(self.world, &mut head, &open)?;
            return Ok(head.state);
        }
        self.end(run, head, outcome)
    }

    /// Nothing is lost: it goes on when the program does again what is on record.
    fn stand(&mut self, mut head: Head, run: &Run, error: Failed) -> Result<String, Failure> {
        head.state = "diverged".to_owned();
        self.world.log(Level::Error, &format!("{}: {}: {}", head.instance(), error.code, error.message));
        head.error = Some(error);
        cells::put_head(self.world, &mut head, &run.open())?;
        Ok(head.state)
    }

    fn end(
        &mut self,
        run: &mut Run,
        mut head: Head,
        outcome: Result<Returned, FunctionError>,
    ) -> Result<String, Failure> {
        run.withdraw_all();
        let result = match outcome {
            Ok(Returned::Continue(input)) => match print_of(&input).0 {
                bytes if bytes > VALUE_BYTES_MAX => {
                    let message =
                        format!("the input to start over with has {bytes} bytes, more than {VALUE_BYTES_MAX}");
                    Err(FunctionError::new("FUNCTION_INPUT_TOO_LARGE", message))
                }
                _ => return self.start_over(head, input),
            },
            Ok(Returned::Value(value)) => match print_of(&value).0 {
                bytes if bytes > VALUE_BYTES_MAX => {
                    Err(FunctionError::new("FUNCTION_RESULT_TOO_LARGE", format!("the result has {bytes} bytes")))
                }
                _ => Ok(value),
            },
            Err(error) => Err(error),
        };
        match result {
            Ok(value) => (head.state, head.result) = ("done".to_owned(), Some(value)),
            Err(error) => {
                let is_cancelled = head.cancel.is_some() && error.is_cancelled();
                head.state = if is_cancelled { "cancelled" } else { "failed" }.to_owned();
                head.error = Some(run.failed(&error));
            }
        }
        head.ended_ns = Some(self.world.now_ns());
        head.signals.clear();
        for caller in std::mem::take(&mut head.callers) {
            self.world.reply(&caller, &answer(&head))?;
        }
        cells::put_head(self.world, &mut head, &BTreeMap::new())?;
        cells::ended(self.world, &head)?;
        Ok(head.state)
    }

    /// In a step of its own, so that a function that only starts over does not fill one.
    fn start_over(&mut self, mut head: Head, input: Value) -> Result<String, Failure> {
        rows::delete_log(self.world, &head);
        (head.run, head.asked, head.resolved, head.ran, head.cancel) = (head.run + 1, 0, 0, 0, None);
        self.put_start(&head, input)?;
        let label = format!("$fn/{}/{}.start", head.instance(), head.run);
        self.world.set_timer(&label, self.world.now_ns(), &Value::Null)?;
        cells::put_head(self.world, &mut head, &BTreeMap::new())?;
        Ok(head.state)
    }

    /// The instance and the await that a label names, if they are still open.
    fn find(&self, label: &Label) -> Result<Option<(Head, Entry, u32)>, Failure> {
        let head = cells::head(self.world, &label.instance)?;
        let head = head.filter(|head| head.run == label.run && head.ended_ns.is_none());
        let (Some(head), Some(number)) = (head, label.number) else { return Ok(None) };
        let entry = rows::entry(self.world, &label.instance, number)?;
        Ok(entry.filter(|entry| entry.state == EntryState::Open).map(|entry| (head, entry, number)))
    }

    fn resolve(
        &mut self,
        (mut head, mut entry, number): (Head, Entry, u32),
        (state, value): (EntryState, Value),
    ) -> Result<(), Failure> {
        entry.end(self.world, &mut head, state, value);
        rows::put_entry(self.world, &head, (number, &entry), None)?;
        let log = rows::log(self.world, &head)?;
        self.advance(head, log).map(drop)
    }

    fn receipt(&mut self, label: &Label, status: Status, payload: &[u8]) -> Result<(), Failure> {
        let Some((head, entry, number)) = self.find(label)? else {
            return self.detached_receipt(label, status, payload);
        };
        let (name, attempts) = (head.label(number), entry.attempts.unwrap_or(1));
        if status == Status::Ok {
            self.world.cancel_timer(&format!("{name}/timeout"));
            let ended = failed_call(&entry, cbor::decode(payload)?);
            return self.resolve((head, entry, number), ended);
        }
        let error: EffectError = cbor::from_slice(payload)
            .unwrap_or_else(|_| EffectError::new("RECEIPT_INVALID", String::from_utf8_lossy(payload)));
        if may_retry(&entry, &error) {
            self.world.set_timer_in_ms(&format!("{name}/retry"), wait_ms(attempts), &Value::Null)?;
            return rows::put_entry(self.world, &head, (number, &entry), None);
        }
        self.world.cancel_timer(&format!("{name}/timeout"));
        let value = serde_json::to_value(EffectError { attempts: attempts.into(), ..error })?;
        self.resolve((head, entry, number), (EntryState::Error, value))
    }

    fn timer(&mut self, label: &Label) -> Result<(), Failure> {
        if label.number.is_none() {
            let head = cells::head(self.world, &label.instance)?;
            let Some(head) = head.filter(|head| head.run == label.run && head.ended_ns.is_none()) else {
                return Ok(());
            };
            let log = rows::log(self.world, &head)?;
            return self.advance(head, log).map(drop);
        }
        let Some((head, mut entry, number)) = self.find(label)? else { return self.detached_timer(label) };
        let (name, attempts) = (head.label(number), entry.attempts.unwrap_or(1));
        match (label.part.as_deref(), &entry.retry) {
            (Some("retry"), Some(retry)) => {
                self.world.emit(&entry.name, &retry.params, &name)?;
                entry.attempts = Some(attempts + 1);
                rows::put_entry(self.world, &head, (number, &entry), None)
            }
            (Some("retry"), None) => Ok(()),
            (Some(_), _) => {
                self.world.cancel(&name);
                self.world.cancel_timer(&format!("{name}/retry"));
                let reason = "no receipt came within the timeout of the await";
                let value = error_value("EFFECT_TIMEOUT", reason, attempts);
                self.resolve((head, entry, number), (EntryState::Error, value))
            }
            (None, _) => self.resolve((head, entry, number), (EntryState::Ok, Value::Null)),
        }
    }

    /// The receipt of an effect that a function let go, and that is tried again without it.
    fn detached_receipt(&mut self, label: &Label, status: Status, payload: &[u8]) -> Result<(), Failure> {
        let Some((_, entry)) = rows::detached(self.world, label)? else { return Ok(()) };
        let error: EffectError = cbor::from_slice(payload)
            .unwrap_or_else(|_| EffectError::new("RECEIPT_INVALID", String::from_utf8_lossy(payload)));
        if status != Status::Ok && may_retry(&entry, &error) {
            let wait_ms = wait_ms(entry.attempts.unwrap_or(1));
            return self.world.set_timer_in_ms(&format!("{}/retry", label.effect()), wait_ms, &Value::Null);
        }
        self.world.cancel_timer(&format!("{}/timeout", label.effect()));
        rows::forget_detached(self.world, label);
        Ok(())
    }

    fn detached_timer(&mut self, label: &Label) -> Result<(), Failure> {
        let Some((number, mut entry)) = rows::detached(self.world, label)? else { return Ok(()) };
        match (label.part.as_deref(), &entry.retry) {
            (Some("retry"), Some(retry)) => {
                self.world.emit(&entry.name, &retry.params, &label.effect())?;
                entry.attempts = Some(entry.attempts.unwrap_or(1) + 1);
                rows::put_detached(self.world, (&label.instance, label.run), (number, &entry))
            }
            _ => {
                self.world.cancel(&label.effect());
                self.world.cancel_timer(&format!("{}/retry", label.effect()));
                rows::forget_detached(self.world, label);
                Ok(())
            }
        }
    }

    /// An event that starts no function. Says which instances took it.
    fn event(&mut self, schema: &str, value: &Value, key: Option<&str>) -> Result<Vec<String>, Failure> {
        let addressed = key.map_or_else(|| Ok(Vec::new()), |key| self.running(key))?;
        if !addressed.is_empty() {
            let taken_by = addressed.iter().map(Head::instance).collect();
            for head in addressed {
                self.signal(head, schema, value)?;
            }
            return Ok(taken_by);
        }
        let (prefix, mut taken_by) = (event_prefix(schema), Vec::new());
        let waiters = self.world.scan::<Value>(&prefix, None, WAITERS_MAX)?;
        let last = waiters.last();
        if last.is_some_and(|(last, _)| !self.world.scan_bytes(&prefix, Some(last), 1).is_empty()) {
            let message =
                format!("more than {WAITERS_MAX} awaits wait for `{schema}`: send it with the key of an instance");
            return Err(refused("FUNCTIONS_FULL", message));
        }
        let woken: Vec<_> = waiters.into_iter().filter(|(_, wanted)| matches(value, wanted)).collect();
        if woken.len() > WOKEN_MAX {
            let message =
                format!("more than {WOKEN_MAX} awaits would take this `{schema}`: send it with the key of an instance");
            return Err(refused("FUNCTIONS_FULL", message));
        }
        for (waiter, _) in woken {
            let label = Label::parse(&format!("$fn/{}", &waiter[prefix.len()..]));
            let Some(label) = label else { continue };
            let Some(found) = self.find(&label)? else { continue };
            self.world.delete(&waiter);
            taken_by.push(found.0.instance());
            self.resolve(found, (EntryState::Ok, value.clone()))?;
        }
        Ok(taken_by)
    }

    fn running(&self, key: &str) -> Result<Vec<Head>, Failure> {
        let mut running = Vec::new();
        for name in self.functions.functions.keys().filter(|_| is_name(key)) {
            let head = cells::head(self.world, &format!("{name}/{key}"))?;
            running.extend(head.filter(|head| head.ended_ns.is_none()));
        }
        Ok(running)
    }

    /// An event for one instance: what it waits for first, or kept until it asks.
    fn signal(&mut self, mut head: Head, name: &str, value: &Value) -> Result<(), Failure> {
        for (number, entry) in (0..).zip(rows::log(self.world, &head)?.entries) {
            if entry.state != EntryState::Open || entry.name != name {
                continue;
            }
            let waiter = head.waiter_key(name, number);
            let wanted: Option<Value> = if entry.kind == "event" { self.world.get(&waiter)? } else { None };
            let takes = entry.kind == "signal" || entry.kind == "event" && matches(value, &wanted.unwrap_or_default());
            if takes {
                if entry.kind == "event" {
                    self.world.delete(&waiter);
                }
                return self.resolve((head, entry, number), (EntryState::Ok, value.clone()));
            }
        }
        head.signals.push((name.to_owned(), value.clone()));
        let bytes: usize = head.signals.iter().map(|(_, value)| print_of(value).0).sum();
        if head.signals.len() > SIGNALS_MAX || bytes > SIGNALS_BYTES_MAX {
            let instance = head.instance();
            let most = format!("{SIGNALS_MAX} events or {} KiB", SIGNALS_BYTES_MAX >> 10);
            let message = format!("{instance} has as much as it may have that it has not asked for: {most}");
            return Err(refused("FUNCTION_SIGNALS_FULL", message));
        }
        self.world.put(&head_key(&head.instance()), &head)
    }

    /// `{"cancel": "order/17", "reason": …}`, `{"pause": …}`, `{"resume": …}` or `{"resolve": …, "await": 3, "ok": …}`, with `error` in place
    /// of `ok` for a failure: what an operator asks for. And `{"check": ["order/17", …]}`: which of these would diverge on this program, which a
    /// rehearsal asks.
    fn command(&mut self, command: &Value) -> Result<(), Failure> {
        if let Some(Value::Array(names)) = command.get("check") {
            return self.answer_check(names);
        }
        let verb = ["cancel", "pause", "resume", "resolve"].into_iter().find(|verb| command.get(verb).is_some());
        let instance = verb.and_then(|verb| command[verb].as_str()).unwrap_or_default();
        let (Some(verb), Some(mut head)) = (verb, cells::head(self.world, instance)?) else {
            let message = format!("there is no instance `{instance}` to {}", verb.unwrap_or("change"));
            return Err(refused("FUNCTION_NOT_FOUND", message));
        };
        let (mut state, name) = (head.state.clone(), head.instance());
        if verb == "resolve" {
            state = self.given_result(head, command)?;
        } else if head.ended_ns.is_none() {
            head.paused = (verb == "pause").then_some(true);
            if verb == "cancel" && head.cancel.is_none() {
                let reason = command["reason"].as_str().unwrap_or("it was cancelled").to_owned();
                head.cancel = Some(Cancel { order: head.resolved, reason, at_ns: self.world.now_ns() });
                head.resolved += 1;
            }
            let log = rows::log(self.world, &head)?;
            state = self.advance(head, log)?;
        }
        if self.given.origin.wants_reply {
            self.world.reply(&self.given.seq, &serde_json::json!({ "instance": name, "state": state }))?;
        }
        Ok(())
    }

    /// Ends an open await with a result that is given, in place of what it waits for. Says the state of the instance.
    fn given_result(&mut self, mut head: Head, command: &Value) -> Result<String, Failure> {
        let number = command["await"].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let instance = head.instance();
        let is_over = head.ended_ns.is_some() || number == 0;
        let entry = if is_over { None } else { rows::entry(self.world, &instance, number)? };
        let Some(mut entry) = entry.filter(|entry| entry.state == EntryState::Open || planted(Mutant::EndedAwaitEnds))
        else {
            return Err(refused("FUNCTION_NOT_FOUND", format!("{instance} does not wait for await {number}")));
        };
        cells::withdraw(self.world, &head, number, &entry);
        let (state, value) = match command.get("error") {
            None => (EntryState::Ok, command["ok"].clone()),
            Some(error) => {
                let part = |name: &str| error[name].as_str().unwrap_or_default();
                (EntryState::Error, error_value(part("code"), part("reason"), entry.attempts.unwrap_or(0)))
            }
        };
        entry.end(self.world, &mut head, state, value);
        rows::put_entry(self.world, &head, (number, &entry), None)?;
        let log = rows::log(self.world, &head)?;
        self.advance(head, log)
    }

    /// This program takes over: unless an instance would go another way than is on record.
    fn check(&mut self) -> Result<(), Failure> {
        let (mut diverged, mut standing, mut after) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let page = self.world.scan::<Head>("$fn/i/", after.as_deref(), 100)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (_, head) in page.into_iter().filter(|(_, head)| head.ended_ns.is_none()) {
                match self.would_diverge(&head)? {
                    Some((_, why)) => diverged.push(format!("{}: {why}", head.instance())),
                    None if head.state == "diverged" => standing.push(head),
                    None => {}
                }
            }
        }
        if !diverged.is_empty() {
            let shown = diverged.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("; ");
            let message = format!("{} instances would diverge: {shown}", diverged.len());
            return Err(refused("FUNCTION_DIVERGED", message));
        }
        for head in standing {
            let log = rows::log(self.world, &head)?;
            self.advance(head, log)?;
        }
        Ok(())
    }

    fn answer_check(&mut self, names: &[Value]) -> Result<(), Failure> {
        let mut diverged = Vec::new();
        for name in names.iter().filter_map(Value::as_str) {
            let head = cells::head(self.world, name)?.filter(|head| head.ended_ns.is_none());
            let Some(head) = head else { continue };
            if let Some((number, message)) = self.would_diverge(&head)? {
                diverged.push(serde_json::json!({ "instance": name, "await": number, "message": message }));
            }
        }
        if self.given.origin.wants_reply {
            self.world.reply(&self.given.seq, &serde_json::json!({ "diverged": diverged }))?;
        }
        Ok(())
    }

    /// At which await the instance would go another way than is on record, and how.
    fn would_diverge(&self, head: &Head) -> Result<Option<(u32, String)>, Failure> {
        if head.format != FORMAT {
            let why = "it is on record in another format: let it end on the program that it runs on";
            return Ok(Some((0, why.to_owned())));
        }
        let Some(begin) = self.functions.functions.get(&head.function) else {
            return Ok(Some((0, format!("the program has no function `{}`", head.function))));
        };
        if head.ran == 0 {
            return Ok(None);
        }
        let log = rows::log(self.world, head)?;
        let input = log.entries[0].value.clone();
        let run = Run::new(head.clone(), log, self.functions.declared.clone(), true);
        let run = Rc::new(RefCell::new(run));
        execute(&run, begin(Ctx::of(&run), input));
        let diverged = run.borrow().diverged.clone();
        Ok(diverged.map(|diverged| (diverged.number, diverged.message)))
    }
}

fn may_retry(entry: &Entry, error: &EffectError) -> bool {
    let attempts = entry.attempts.unwrap_or(1);
    entry.retry.as_ref().is_some_and(|retry| attempts <= retry.max) && !FINAL.contains(&&*error.code)
}

/// How long to wait after so many attempts.
fn wait_ms(attempts: u32) -> u64 {
    RETRY_MS.checked_shl(attempts - 1).unwrap_or(RETRY_MS_MAX).min(RETRY_MS_MAX)
}

/// A called function that failed answers with its failure, which is one here, too.
fn failed_call(entry: &Entry, value: Value) -> (EntryState, Value) {
    let failed = value.get("$function_failed").filter(|_| entry.name == "world.call");
    let Some(failed) = failed else { return (EntryState::Ok, value) };
    let mut error =
        error_value("CALL_FAILED", failed["message"].as_str().unwrap_or_default(), entry.attempts.unwrap_or(1));
    error["failed_code"] = failed["code"].clone();
    (EntryState::Error, error)
}

/// The answer to callers of an instance that has ended.
fn answer(head: &Head) -> Value {
    if let (Some(result), "done") = (&head.result, &*head.state) {
        return result.clone();
    }
    let error = head.error.as_ref();
    serde_json::json!({ "$function_failed": {
        "instance": head.instance(),
        "state": head.state,
        "code": error.map(|error| &error.code),
        "message": error.map(|error| &error.message),
        "await": error.map(|error| error.r#await),
    }})
}
