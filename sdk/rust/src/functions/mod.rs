//! Durable functions: what should happen, in order, as ordinary `async` code.
//!
//! ```
//! use mundi_sdk::{
//!     Event, Failure, Program, Value, World, durable,
//!     functions::{Ctx, FunctionError, Functions},
//!     testing::DurableWorld,
//! };
//! use serde_json::json;
//!
//! #[durable]
//! async fn order(ctx: Ctx, order: Value) -> Result<Value, FunctionError> {
//!     let charge: Value = ctx.effect("payment.charge", &json!({ "cents": order["cents"] })).await?;
//!     let approval = ctx.race([ctx.event::<Value>("approve").any(), ctx.sleep("1h")?.any()]).await?;
//!     if approval.is_null() {
//!         ctx.effect::<Value>("payment.refund", &charge).await?;
//!         return Ok(json!({ "state": "expired" }));
//!     }
//!     Ok(json!({ "state": "placed" }))
//! }
//!
//! struct Shop;
//!
//! impl Program for Shop {
//!     const OFFER: &'static str = r#"{"events": {"order": true, "approve": true},
//!         "effects": {"payment.charge": {}, "payment.refund": {}}}"#;
//!
//!     fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
//!         Functions::new(Self::OFFER).with::<order>().handle(world, event).map(drop)
//!     }
//! }
//!
//! let mut world = DurableWorld::<Shop>::new();
//! world.run("order", json!({ "cents": 800 }), "17")?;
//! world.answer("payment.charge", "c-1")?;
//! world.skip("1h")?;
//! world.answer("payment.refund", true)?;
//! assert_eq!(world.instance("order", "17")?.result, Some(json!({ "state": "expired" })));
//! # Ok::<(), Failure>(())
//! ```
//!
//! An event with the function's name starts an instance under the event's key; the reply is what the function gives back. What it
//! awaits is on record in the world's cells, and each step runs it from its beginning on that.

pub(crate) mod cells;
mod error;
#[doc(hidden)]
pub mod mutants;
mod program;
pub(crate) mod rows;
mod run;
mod waits;

pub use cells::{
    AWAITS_MAX, ENDED_MAX, Failed, INSTANCES_MAX, SIGNALS_BYTES_MAX, SIGNALS_MAX, STATUS_BYTES_MAX, VALUE_BYTES_MAX,
    WAITERS_MAX, WOKEN_MAX,
};
pub use error::FunctionError;
pub use program::{Durable, Functions, Handled};
pub use run::Returns;
pub use waits::{Ask, Branch, Limit};

use crate::{
    Effect, Level, Outgoing, Value,
    children::{Budget, ChildPassed, child_spec},
    kinds,
};
use cells::{Retry, is_name, milliseconds};
use error::full;
use run::{Returned, Scope, Shared};
use serde::{Serialize, de::DeserializeOwned};
use std::{future::Future, rc::Rc};

/// The result of a durable function: made by [`Ctx::done`] or [`Ctx::continue_as`].
pub struct Done(Returned);

/// Options of an effect beside its params.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectOptions {
    retry: u32,
    timeout: Option<String>,
    key_in: Option<String>,
}

impl EffectOptions {
    /// It is asked for again so often when it fails, after 1 s, 2 s, 4 s and so on up to a minute.
    #[must_use]
    pub fn retry(self, retry: u32) -> Self {
        Self { retry, ..self }
    }

    /// The field of its params that gets a key, unless they have one: the same for every attempt of this await, another one for every other await
    /// and in a fork. A worker recognizes by it an attempt whose answer was lost. An `http.request` that is retried has it in its header
    /// `idempotency-key` anyway.
    #[must_use]
    pub fn key_in(self, field: &str) -> Self {
        Self { key_in: Some(field.to_owned()), ..self }
    }

    /// How long to wait for it, all attempts together. Then it is withdrawn, and fails with `EFFECT_TIMEOUT`.
    #[must_use]
    pub fn timeout(self, timeout: &str) -> Self {
        Self { timeout: Some(timeout.to_owned()), ..self }
    }
}

/// All that a durable function can do. What it gives is to be awaited, but for what is known at once.
#[derive(Clone)]
pub struct Ctx {
    run: Shared,
    scope: Rc<Scope>,
}

impl Ctx {
    fn of(run: &Shared) -> Self {
        Self { run: run.clone(), scope: run.borrow().root.clone() }
    }

    /// The key of this instance.
    pub fn key(&self) -> String {
        self.run.borrow().head.key.clone()
    }

    /// Milliseconds since 1970: the world's clock when the newest result came.
    pub fn now(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    pub fn now_ns(&self) -> u64 {
        self.run.borrow().now_ns
    }

    /// The next number, of 64 bits, of a sequence that is this instance's.
    pub fn random(&self) -> u64 {
        self.run.borrow_mut().random()
    }

    /// Asks for an effect that `mundi.json` declares.
    pub fn effect<T: DeserializeOwned>(&self, kind: &str, params: &impl Serialize) -> Ask<T> {
        self.effect_with(kind, params, &EffectOptions::default())
    }

    /// The same with what is said beside its params: `EffectOptions::default().retry(3).timeout("30s")`.
    pub fn effect_with<T: DeserializeOwned>(
        &self,
        kind: &str,
        params: &impl Serialize,
        options: &EffectOptions,
    ) -> Ask<T> {
        let said = serde_json::to_value(params).map_err(FunctionError::from);
        let timeout_ms = options.timeout.as_deref().map(milliseconds).transpose();
        let (params, timeout_ms) = match said.and_then(|params| Ok((params, timeout_ms?))) {
            Ok(said) => said,
            Err(error) => return Ask::failed(&self.run, error),
        };
        let slot = self.run.borrow_mut().ask(&self.scope, ("effect", kind), &params, |run, label, number| {
            run.check_effect(kind)?;
            let params = keyed(run, number, (kind, &params), options);
            let entry = &mut run.entries[number as usize];
            entry.attempts = Some(1);
            entry.retry = (options.retry > 0).then(|| Retry { max: options.retry, params: params.clone() });
            if let Some(ms) = timeout_ms {
                run.world.set_timer_in_ms(&format!("{label}/timeout"), ms, &Value::Null).map_err(full)?;
            }
            run.world.emit(kind, &params, label).map_err(full)?;
            Ok(None)
        });
        Ask::new(&self.run, slot)
    }

    /// The same for an effect with a type: `Effect` is made from `mundi.json`.
    pub fn ask<E: Effect>(&self, effect: &E) -> Ask<E::Receipt> {
        self.effect(E::KIND, effect)
    }

    /// Calls another world, by its id or its name, and waits for its reply. A durable function there answers with its result.
    pub fn call<T: DeserializeOwned>(&self, world: &str, event: &str, value: &impl Serialize) -> Ask<T> {
        self.call_with(world, event, value, &EffectOptions::default())
    }

    /// The same with a retry and a timeout.
    pub fn call_with<T: DeserializeOwned>(
        &self,
        world: &str,
        event: &str,
        value: &impl Serialize,
        options: &EffectOptions,
    ) -> Ask<T> {
        match serde_json::to_value(value) {
            Ok(value) => {
                let params = serde_json::json!({ "world": world, "event": event, "value": value });
                self.effect_with("world.call", &params, options)
            }
            Err(error) => Ask::failed(&self.run, error.into()),
        }
    }

    /// Sends an event to another world. Ends when it is in that world's inbox.
    pub fn send(&self, world: &str, schema: &str, value: &impl Serialize) -> Ask<kinds::Sent> {
        let value = match serde_json::to_value(value) {
            Ok(value) => value,
            Err(error) => return Ask::failed(&self.run, error.into()),
        };
        let params = serde_json::json!({ "world": world, "schema": schema, "value": value });
        let slot = self.run.borrow_mut().ask(&self.scope, ("effect", "fabric.send"), &params, |run, label, number| {
            run.check_effect("fabric.send")?;
            run.entries[number as usize].attempts = Some(1);
            let outgoing = Outgoing::event(schema, &value).map_err(full)?;
            run.world.send(world, &outgoing, label).map_err(full)?;
            Ok(None)
        });
        Ask::new(&self.run, slot)
    }

    /// Asks for a new world of a program, by its name or its manifest's hash, which gets a first event. Ends when it is there.
    pub fn spawn(&self, program: &str, first: Option<(&str, Value)>) -> Ask<kinds::Spawned> {
        let mut params = serde_json::json!({ "program": program });
        if let Some((schema, value)) = &first {
            params["first"] = serde_json::json!({ "schema": schema, "value": value });
        }
        let slot = self.run.borrow_mut().ask(&self.scope, ("effect", "world.spawn"), &params, |run, label, number| {
            run.check_effect("world.spawn")?;
            run.entries[number as usize].attempts = Some(1);
            let first = first.map(|(schema, value)| Outgoing::event(schema, &value)).transpose().map_err(full)?;
            run.world.spawn(program, first.as_ref(), label).map_err(full)?;
            Ok(None)
        });
        Ask::new(&self.run, slot)
    }

    /// Runs a child of a kind (`process`, `world`, `agent`, `external`), which is started at most once, and waits for what it returns. Whoever
    /// withdraws the wait (a race, a scope, a timeout, the end of the function) cancels the child.
    pub fn child<T: DeserializeOwned>(
        &self,
        kind: &str,
        params: &impl Serialize,
        budget: &Budget,
    ) -> Ask<ChildPassed<T>> {
        self.child_within(kind, params, budget, None)
    }

    /// The same with a timeout, after which the child is cancelled and the wait fails with `EFFECT_TIMEOUT`.
    pub fn child_within<T: DeserializeOwned>(
        &self,
        kind: &str,
        params: &impl Serialize,
        budget: &Budget,
        timeout: Option<&str>,
    ) -> Ask<ChildPassed<T>> {
        match child_spec(kind, params, budget) {
            Ok(spec) => {
                let options = EffectOptions { timeout: timeout.map(str::to_owned), ..EffectOptions::default() };
                self.effect_with("child.spawn", &spec, &options)
            }
            Err(error) => Ask::failed(&self.run, program::failed(error)),
        }
    }

    /// Waits so long: `500ms`, `30s`, `5m`, `1h`, `2d`.
    pub fn sleep(&self, duration: &str) -> Result<Ask<()>, FunctionError> {
        let ms = milliseconds(duration)?;
        let slot = self.run.borrow_mut().ask(&self.scope, ("timer", "sleep"), &ms.into(), |run, label, _| {
            run.world.set_timer_in_ms(label, ms, &Value::Null).map_err(full)?;
            Ok(None)
        });
        Ok(Ask::new(&self.run, slot))
    }

    /// Waits until a time, in milliseconds since 1970.
    pub fn until(&self, ms: u64) -> Ask<()> {
        let slot = self.run.borrow_mut().ask(&self.scope, ("timer", "until"), &ms.into(), |run, label, _| {
            run.world.set_timer(label, ms.saturating_mul(1_000_000), &Value::Null).map_err(full)?;
            Ok(None)
        });
        Ask::new(&self.run, slot)
    }

    /// Waits for an event of the world with this name. One that is sent with this instance's key goes to this instance alone, also
    /// if it comes before it is waited for; one without a key goes to all that wait at that moment.
    pub fn event<T: DeserializeOwned>(&self, name: &str) -> Ask<T> {
        self.listen("event", name, Value::Null)
    }

    /// The same for an event whose fields are those of the filter.
    pub fn event_where<T: DeserializeOwned>(&self, name: &str, wanted: &impl Serialize) -> Ask<T> {
        match serde_json::to_value(wanted) {
            Ok(wanted) => self.listen("event", name, wanted),
            Err(error) => Ask::failed(&self.run, error.into()),
        }
    }

    /// Waits for an event with this name that is sent with this instance's key, and for no other.
    pub fn signal<T: DeserializeOwned>(&self, name: &str) -> Ask<T> {
        self.listen("signal", name, Value::Null)
    }

    fn listen<T: DeserializeOwned>(&self, kind: &str, name: &str, wanted: Value) -> Ask<T> {
        if !is_name(name) {
            let message = format!("`{name}` cannot be the name of an event that is waited for");
            return Ask::failed(&self.run, FunctionError::new("FUNCTION_FAILED", message));
        }
        let slot = self.run.borrow_mut().ask(&self.scope, (kind, name), &wanted, |run, _, number| {
            let early = run.take_signal(name, &wanted);
            if early.is_none() && kind == "event" {
                let key = run.head.waiter_key(name, number);
                run.world.put(&key, &wanted).map_err(full)?;
            }
            Ok(early)
        });
        Ask::new(&self.run, slot)
    }

    /// Waits for all; fails with the first that fails.
    pub async fn all<T, F: Future<Output = Result<T, FunctionError>>>(
        &self,
        waits: impl IntoIterator<Item = F>,
    ) -> Result<Vec<T>, FunctionError> {
        waits::all(waits.into_iter().collect()).await
    }

    /// Waits for the first that ends, in whichever way, and withdraws the others. [`Ask::any`] makes asks of one type.
    pub async fn race<T: DeserializeOwned>(&self, waits: impl IntoIterator<Item = Ask<T>>) -> Result<T, FunctionError> {
        waits::race(&self.run, waits.into_iter().collect()).await
    }

    /// Waits for the first branch that ends, in whichever way: a [`Branch`] is an ask, or code that waits for several in turn. What the others wait
    /// for is withdrawn.
    pub async fn race_branches<T: 'static>(
        &self,
        branches: impl IntoIterator<Item = Branch<T>>,
    ) -> Result<T, FunctionError> {
        waits::race_branches(&self.run, branches.into_iter().map(|branch| branch.begin(self)).collect()).await
    }

    /// Lets something go: the function ends without it, and an effect is not withdrawn then.
    pub fn detach<T>(&self, ask: Ask<T>) {
        ask.slot.is_detached.set(true);
    }

    /// A scope: its awaits end with `FUNCTION_CANCELLED` when its [`Ctx::cancel`] is called.
    pub fn scope(&self) -> Self {
        Self { run: self.run.clone(), scope: Scope::new(Some(self.scope.clone()), false) }
    }

    /// Cancels what is waited for in this scope.
    pub fn cancel(&self, reason: &str) {
        self.run.borrow_mut().cancel(&self.scope, reason);
    }

    /// A context for cleanup that is not cancelled with the instance: compensation waits with it.
    pub fn shield(&self) -> Self {
        Self { run: self.run.clone(), scope: Scope::new(Some(self.scope.clone()), true) }
    }

    /// At most so many at a time: `limit.run(|| ctx.effect("pay", &order))`.
    pub fn limit(&self, max: usize) -> Limit {
        Limit::new(&self.run, max.max(1))
    }

    /// The present value of a cell of the world. It is on record: a later run sees the same.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, FunctionError> {
        let found = self.run.borrow_mut().instant(("get", key), &Value::Null, |world| {
            Ok(world.get::<Value>(key).map_err(program::failed)?.unwrap_or(Value::Null))
        })?;
        Ok(serde_json::from_value(found)?)
    }

    pub fn put(&self, key: &str, value: &impl Serialize) -> Result<(), FunctionError> {
        check_cell(key)?;
        let value = serde_json::to_value(value)?;
        let put = |world: &mut crate::World| world.put(key, &value).map(|()| Value::Null).map_err(program::failed);
        self.run.borrow_mut().instant(("put", key), &value, put).map(drop)
    }

    pub fn delete(&self, key: &str) -> Result<(), FunctionError> {
        check_cell(key)?;
        let delete = |world: &mut crate::World| {
            world.delete(key);
            Ok(Value::Null)
        };
        self.run.borrow_mut().instant(("delete", key), &Value::Null, delete).map(drop)
    }

    /// Sets the status that people see while the instance runs.
    pub fn status(&self, value: &impl Serialize) -> Result<(), FunctionError> {
        self.run.borrow_mut().status = Some(serde_json::to_value(value)?);
        Ok(())
    }

    /// A line for people. One that was written in an earlier step is not written again.
    pub fn log(&self, level: Level, text: &str) {
        let run = self.run.borrow();
        if run.is_live() {
            run.world.log(level, &format!("{}: {text}", run.head.instance()));
        }
    }

    /// Which version of the code this instance goes through here: `from` if it passed this place before there was another, else
    /// `to`.
    pub fn version(&self, name: &str, from: u32, to: u32) -> Result<u32, FunctionError> {
        self.run.borrow_mut().version(name, from, to)
    }

    /// The function ends with this result.
    pub fn done(&self, result: &impl Serialize) -> Result<Done, FunctionError> {
        Ok(Done(Returned::Value(serde_json::to_value(result)?)))
    }

    /// The function starts over with another input and an empty log.
    pub fn continue_as(&self, input: &impl Serialize) -> Result<Done, FunctionError> {
        Ok(Done(Returned::Continue(serde_json::to_value(input)?)))
    }
}

/// The newest status of an instance, by its function and its key: for queries and handlers of the same world.
pub fn status(world: &crate::World, function: &str, key: &str) -> Result<Option<Value>, crate::Failure> {
    Ok(cells::head(world, &format!("{function}/{key}"))?.and_then(|head| head.status))
}

/// The params with a key that is the same for every attempt of an await. It is not part of what is compared with the record, because it names
/// the world, which is another one in a fork.
fn keyed(run: &run::Run, number: u32, (kind, params): (&str, &Value), options: &EffectOptions) -> Value {
    let key = || Value::String(run.idempotency_key(number));
    let mut params = params.clone();
    if let (Some(field), Value::Object(fields)) = (&options.key_in, &mut params) {
        fields.entry(field.clone()).or_insert_with(key);
    }
    if kind != "http.request" || options.retry == 0 {
        return params;
    }
    if let Value::Object(fields) = &mut params
        && let Value::Object(headers) = fields.entry("headers").or_insert_with(|| serde_json::json!({}))
        && !headers.keys().any(|name| name.eq_ignore_ascii_case("idempotency-key"))
    {
        headers.insert("idempotency-key".to_owned(), key());
    }
    params
}

fn check_cell(key: &str) -> Result<(), FunctionError> {
    if !key.starts_with(cells::PREFIX) {
        return Ok(());
    }
    let message = format!("cells under `$fn/` are those of durable functions: choose another key than `{key}`");
    Err(FunctionError::new("FUNCTION_CELL_RESERVED", message))
}
