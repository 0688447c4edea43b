//! The program of an order: steps forward, and the same steps back.

use mundi::{
    ReceiptStatus, Value, cbor,
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program},
};
use serde_json::{Value as Json, json};

pub(crate) struct Order;

/// The steps in their order, with the step that undoes each. Nothing is shipped before it is confirmed.
const STEPS: [(&str, Option<&str>); 3] = [("reserve", Some("release")), ("charge", Some("refund")), ("ship", None)];
const SHIP: usize = 2;

pub(crate) fn declare(manifest: &mut Manifest) {
    for event in ["begin", "confirm", "outcome"] {
        manifest.events.insert(event.to_owned(), Schema::anything());
    }
    manifest.effects.insert("http.request".to_owned(), EffectRule::default());
}

impl Program for Order {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema: "begin", value, .. } => {
                let order = json(value)?;
                let within_ns = order["confirm_within_ms"].as_u64().unwrap_or(0) * 1_000_000;
                put(host, "order", &order)?;
                host.set_timer("confirm", host.logical_now_ns() + within_ns, &cbor::encode(&Value::Null))?;
                ask(host, STEPS[0].0)
            }
            Cause::Event { schema: "confirm", .. } => {
                host.cancel_timer("confirm")?;
                put(host, "confirmed", &json!(true))?;
                go_on(host)
            }
            Cause::Event { .. } => {
                let outcome = get(host, "outcome")?;
                Ok(host.reply(event.seq, &cbor::encode(&Value::from(outcome)))?)
            }
            Cause::Receipt { label, status, payload, .. } => told(host, label, went_well(status, payload)?),
            Cause::Timer { .. } => {
                put(host, "failed", &json!("it was not confirmed in time"))?;
                go_on(host)
            }
            Cause::Message { .. } | Cause::Upgraded { .. } => Ok(()),
        }
    }
}

/// A call is over: forward, or back.
fn told(host: &mut dyn Host, what: &str, well: bool) -> Result<(), Failure> {
    host.delete("asking")?;
    let mut done = list(host)?;
    match STEPS.iter().position(|(step, _)| *step == what) {
        Some(_) if well => done.push(what.to_owned()),
        Some(_) => put(host, "failed", &json!(format!("{what} was refused")))?,
        None => drop(done.pop()), // undone; an undo that fails is tried again by the effect's own budget
    }
    put(host, "done", &json!(done))?;
    go_on(host)
}

/// The next call, if none is open: back while something is to be undone, else forward.
fn go_on(host: &mut dyn Host) -> Result<(), Failure> {
    if host.get("asking")?.is_some() || host.get("outcome")?.is_some() || host.get("order")?.is_none() {
        return Ok(());
    }
    let (done, failed) = (list(host)?, get(host, "failed")?);
    if !failed.is_null() {
        let undo = done.last().and_then(|step| STEPS.iter().find(|(name, _)| name == step)).and_then(|(_, undo)| *undo);
        return match undo {
            Some(undo) => ask(host, undo),
            None => put(host, "outcome", &json!({ "undone": failed })),
        };
    }
    match STEPS.get(done.len()) {
        None => put(host, "outcome", &json!("shipped")),
        Some(_) if done.len() == SHIP && host.get("confirmed")?.is_none() => Ok(()), // it waits for event or timer
        Some((step, _)) => ask(host, step),
    }
}

fn ask(host: &mut dyn Host, what: &str) -> Result<(), Failure> {
    let order = get(host, "order")?;
    put(host, "asking", &json!(what))?;
    let body = json!({ "order": order["order"] }).to_string().into_bytes();
    let Value::Map(mut params) = Value::from(json!({
        "method": "POST", "url": format!("{}/{what}", order["shop"].as_str().unwrap_or_default()),
    })) else {
        return Err(Failure::new("a map is a map"));
    };
    params.insert("body".to_owned(), Value::Bytes(body));
    Ok(host.emit("http.request", &cbor::encode(&Value::Map(params)), what)?)
}

fn went_well(status: ReceiptStatus, payload: &[u8]) -> Result<bool, Failure> {
    let answer: Value = cbor::decode(payload).map_err(|error| Failure::new(error.to_string()))?;
    let Value::Map(answer) = answer else { return Ok(false) };
    Ok(status == ReceiptStatus::Ok && answer.get("status") == Some(&Value::Integer(200.into())))
}

fn list(host: &mut dyn Host) -> Result<Vec<String>, Failure> {
    let done = get(host, "done")?;
    Ok(done.as_array().into_iter().flatten().filter_map(|step| step.as_str().map(str::to_owned)).collect())
}

fn get(host: &mut dyn Host, key: &str) -> Result<Json, Failure> {
    host.get(key)?.map_or(Ok(Json::Null), |bytes| json(&bytes))
}

fn put(host: &mut dyn Host, key: &str, value: &Json) -> Result<(), Failure> {
    Ok(host.put(key, &cbor::encode(&Value::from(value.clone())))?)
}

fn json(bytes: &[u8]) -> Result<Json, Failure> {
    let value: Value = cbor::decode(bytes).map_err(|error| Failure::new(error.to_string()))?;
    value.to_json().map_err(|error| Failure::new(error.to_string()))
}
