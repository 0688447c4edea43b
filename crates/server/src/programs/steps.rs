//! `steps`: durable steps, one after the other, each done by a worker outside. What `mundi demo` runs.
//!
//! Events: `start` {steps} asks for step 1; `outcome` {step, outcome} decides the step that is in progress by hand. A step that
//! is `refused` changes the plan of those after it from `ship` to `refund`. Query: `progress`.

use super::{declare_all, value};
use mundi_kernel::{
    manifest::{EffectRule, Manifest, Retry},
    program::{Cause, Event, Failure, Host, Program, View},
};
use mundi_model::{Code, Value, cbor, limits, record::ReceiptStatus};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) struct Steps;

/// The effect that an external worker carries out: `{step, plan}`.
const STEP: &str = "demo.step";

pub(super) fn declare(manifest: &mut Manifest) {
    let number = json!({"type": "integer", "minimum": 1, "maximum": 99});
    let object = |properties: serde_json::Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let events = [
        ("start", object(json!({"steps": number}), &["steps"])),
        ("outcome", object(json!({"step": number, "outcome": {"type": "string"}}), &["step", "outcome"])),
    ];
    declare_all(manifest, &events, &[("progress", json!(true))]);
    // A worker that is killed is soon replaced.
    let retry = Some(Retry { attempts_max: 50, backoff_ms: 20, backoff_ms_max: 100 });
    manifest.effects.insert(STEP.to_owned(), EffectRule { retry, ..EffectRule::default() });
}

impl Program for Steps {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema: "start", value: given, .. } => {
                put(host, "steps", &field(&value(given)?, "steps"))?;
                put(host, "plan", &Value::Text("ship".to_owned()))?;
                ask(host, 1)
            }
            Cause::Event { value: given, .. } => {
                let given = value(given)?;
                let step = integer(&field(&given, "step"));
                host.cancel(&step.to_string())?;
                settle(host, step, &text(&field(&given, "outcome")))
            }
            // A fork dropped it: what came of the step is decided by hand.
            Cause::Receipt { status: ReceiptStatus::Error, payload, .. }
                if text(&field(&value(payload)?, "code")) == Code::EffectCancelled.as_str() =>
            {
                Ok(())
            }
            Cause::Receipt { label, status, payload, .. } => {
                let outcome = match status {
                    ReceiptStatus::Ok => text(&field(&value(payload)?, "outcome")),
                    ReceiptStatus::Error | ReceiptStatus::Timeout => "failed".to_owned(),
                };
                settle(host, label.parse().unwrap_or(0), &outcome)
            }
            Cause::Message { .. } | Cause::Timer { .. } | Cause::Upgraded { .. } => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, _name: &str, _params: &[u8]) -> Result<Vec<u8>, Failure> {
        let cells = view.scan("", None, limits::SCAN_ITEMS_MAX)?;
        let cell = |(key, bytes): (String, Vec<u8>)| Ok((key, value(&bytes)?));
        Ok(cbor::encode(&Value::Map(cells.into_iter().map(cell).collect::<Result<_, Failure>>()?)))
    }
}

fn ask(host: &mut dyn Host, step: i64) -> Result<(), Failure> {
    let plan = get(host, "plan")?;
    let params = [("plan".to_owned(), plan), ("step".to_owned(), Value::Integer(step.into()))];
    let params = cbor::encode(&Value::Map(params.into_iter().collect::<BTreeMap<_, _>>()));
    Ok(host.emit(STEP, &params, &step.to_string())?)
}

/// A step is over: what came of it is kept, and the next one is asked for.
fn settle(host: &mut dyn Host, step: i64, outcome: &str) -> Result<(), Failure> {
    let plan = text(&get(host, "plan")?);
    if outcome == "refused" {
        put(host, "plan", &Value::Text("refund".to_owned()))?;
    }
    put(host, &format!("step/{step:02}"), &Value::Text(format!("{plan}: {outcome}")))?;
    if step < integer(&get(host, "steps")?) { ask(host, step + 1) } else { put(host, "done", &Value::Bool(true)) }
}

fn get(view: &mut (impl View + ?Sized), key: &str) -> Result<Value, Failure> {
    view.get(key)?.map_or(Ok(Value::Null), |bytes| value(&bytes))
}

fn put(host: &mut dyn Host, key: &str, given: &Value) -> Result<(), Failure> {
    Ok(host.put(key, &cbor::encode(given))?)
}

fn field(of: &Value, name: &str) -> Value {
    match of {
        Value::Map(fields) => fields.get(name).cloned().unwrap_or(Value::Null),
        _ => Value::Null,
    }
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => i64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}
