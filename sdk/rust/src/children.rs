//! Children: runs that this world dispatches and does not replay, each started at most once. [`World::spawn_child`] asks for one under a label,
//! [`Event::child`] reads what becomes of it, and [`World::cancel_child`] ends it.
//!
//! `mundi.json` declares the effects `child.spawn`, `child.cancel` and, for a program that is run as a child of kind `world`, `child.done`.
//!
//! [`Event::child`]: crate::Event::child

use crate::{Cause, Event, Failure, Status, Value, World, cbor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

/// The limits of a child, or its spending. A lane that is absent is unbounded in a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_secs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens: Some(tokens), ..Self::default() }
    }
}

/// The lifecycle of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    Started,
    Passed,
    Failed,
    Cancelled,
}

/// A cause that is about a child of this world.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEvent {
    /// The label under which it was spawned.
    pub label: String,
    pub lifecycle: Lifecycle,
    pub child_id: String,
    /// The `worker_run_id`: the idempotency key of the run. Absent if it never had an executor.
    pub lease_id: Option<String>,
    /// The world that runs it, of a child of kind `world`.
    pub world: Option<String>,
    /// The result of a child that passed.
    pub result: Value,
    /// Of one that failed or was cancelled.
    pub code: Option<String>,
    pub reason: Option<String>,
    pub cancel_request_id: Option<String>,
    /// The sum of its debits, once it has ended.
    pub spent: Budget,
}

/// The result of a child that passed: the value of `ctx.child(…)` in a durable function.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChildPassed<T> {
    pub result: T,
    /// The sum of its debits.
    #[serde(default)]
    pub spent: Budget,
    #[serde(default)]
    pub child_id: String,
    /// The world that ran it, of a child of kind `world`.
    #[serde(default)]
    pub world: Option<String>,
}

/// The params of `child.spawn`.
pub(crate) fn child_spec(kind: &str, params: &impl Serialize, budget: &Budget) -> Result<Value, Failure> {
    let mut spec = Map::from_iter([("kind".to_owned(), json!(kind))]);
    let said = [("params", serde_json::to_value(params)?), ("budget", serde_json::to_value(budget)?)];
    let said = said.into_iter().filter(|(_, value)| !value.is_null() && *value != json!({}));
    spec.extend(said.map(|(name, value)| (name.to_owned(), value)));
    Ok(Value::Object(spec))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields {
    child_id: String,
    lease_id: Option<String>,
    world: Option<String>,
    outcome: Option<String>,
    result: Value,
    code: Option<String>,
    reason: Option<String>,
    cancel_request_id: Option<String>,
    spent: Budget,
}

impl World {
    /// Asks for a child of a kind (`process`, `world`, `agent`, `external`) under a label, which names it while it runs.
    pub fn spawn_child(
        &mut self,
        kind: &str,
        params: &impl Serialize,
        budget: &Budget,
        label: &str,
    ) -> Result<(), Failure> {
        self.emit("child.spawn", &child_spec(kind, params, budget)?, label)
    }

    /// Asks for the cancellation of the child that was spawned under `child`. Whether it was in time comes back as a receipt of `child.cancel`
    /// under `label`; how the child ended arrives as [`Lifecycle::Cancelled`].
    pub fn cancel_child(&mut self, child: &str, label: &str) -> Result<(), Failure> {
        self.emit("child.cancel", &json!({ "label": child }), label)
    }

    /// Says that this world, which is a child, is done: its parent gets the result.
    pub fn child_done(&mut self, result: &impl Serialize, label: &str) -> Result<(), Failure> {
        self.child_done_with(result, &Budget::default(), label)
    }

    /// The same, with what it used of `solver_calls` and `tokens`.
    pub fn child_done_with(&mut self, result: &impl Serialize, spent: &Budget, label: &str) -> Result<(), Failure> {
        let mut done = Map::from_iter([("result".to_owned(), serde_json::to_value(result)?)]);
        if *spent != Budget::default() {
            done.insert("spent".to_owned(), serde_json::to_value(spent)?);
        }
        self.emit("child.done", &done, label)
    }

    /// Says that this world, which is a child, has failed.
    pub fn child_failed(&mut self, reason: &str, label: &str) -> Result<(), Failure> {
        self.emit("child.done", &json!({ "reason": reason }), label)
    }
}

impl Event {
    /// The child of this world that it is about, if it is about one.
    pub fn child(&self) -> Result<Option<ChildEvent>, Failure> {
        let (label, ended, payload) = match &self.cause {
            Cause::Message { inbox, payload, headers } if inbox == "child.started" => {
                let label = headers.iter().find(|(name, _)| name == "label");
                (label.map_or("", |(_, label)| label), None, payload)
            }
            Cause::Receipt { label, kind, status, payload } if kind == "child.spawn" => {
                (&**label, Some(*status), payload)
            }
            _ => return Ok(None),
        };
        let fields: Fields = cbor::from_slice(payload)?;
        let was_cancelled = fields.outcome.as_deref() == Some("cancelled");
        let lifecycle = match ended {
            None => Lifecycle::Started,
            Some(Status::Ok) => Lifecycle::Passed,
            // A fork that does not run it, or an operator who answered for it.
            Some(_) if was_cancelled || fields.code.as_deref() == Some("EFFECT_CANCELLED") => Lifecycle::Cancelled,
            Some(_) => Lifecycle::Failed,
        };
        let Fields { child_id, lease_id, world, result, code, reason, cancel_request_id, spent, .. } = fields;
        let label = label.to_owned();
        Ok(Some(ChildEvent {
            label,
            lifecycle,
            child_id,
            lease_id,
            world,
            result,
            code,
            reason,
            cancel_request_id,
            spent,
        }))
    }
}
