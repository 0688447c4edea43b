//! The planner: it dispatches one agent per topic and keeps what became of each. It has no model and no tool of its own.

use mundi::{
    Value, cbor,
    child::{Lane, Spend, spec_params},
    children::Lifecycle,
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program},
};
use serde_json::{Value as Json, json};

pub(crate) struct Planner;

pub(crate) fn declare(manifest: &mut Manifest) {
    for event in ["research", "stop", "report"] {
        manifest.events.insert(event.to_owned(), Schema(json!({ "type": "string" })));
    }
    // What its agents may do, too: they run under this manifest.
    for kind in ["child.spawn", "child.cancel", "llm.chat", "http.request"] {
        manifest.effects.insert(kind.to_owned(), EffectRule::default());
    }
}

impl Program for Planner {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        if let Some(child) = event.cause.child() {
            let what = match child.lifecycle {
                Lifecycle::Started => json!("started"),
                Lifecycle::Passed => match child.result() {
                    Some(Value::Map(result)) => result.get("content").and_then(|text| text.to_json().ok()).into(),
                    _ => Json::Null,
                },
                Lifecycle::Failed | Lifecycle::Cancelled => json!({ "code": child.code() }),
            };
            put(host, child.label, &what)?;
            return answer(host, child.label, &what);
        }
        let Cause::Event { schema, value, .. } = event.cause else { return Ok(()) };
        let Ok(Value::Text(topic)) = cbor::decode(value) else { return Err(Failure::new("a topic is a text")) };
        match schema {
            "research" => {
                let tool = json!({
                    "name": "fetch", "effect": "http.request", "description": "Fetches a page.",
                    "parameters": { "type": "object", "properties": { "url": { "type": "string" } } },
                    "params": { "method": "GET" },
                });
                let task = json!({ "prompt": topic, "system": "You research one topic.", "tools": [tool] });
                let budget = Spend::default().with(Lane::SolverCalls, 5);
                host.spawn_child(&spec_params("agent", &Value::from(task), &budget), &topic)?;
                Ok(())
            }
            "stop" => Ok(host.emit("child.cancel", &cbor::encode(&Value::from(json!({ "label": topic }))), "")?),
            // Answered as soon as the agent has ended.
            _ => {
                put(host, &format!("asker/{topic}"), &json!(event.seq.to_string()))?;
                let what = get(host, &topic)?;
                if what == Json::Null || what == "started" { Ok(()) } else { answer(host, &topic, &what) }
            }
        }
    }
}

/// Replies to whoever asked for a report on the topic, once there is something to report.
fn answer(host: &mut dyn Host, topic: &str, what: &Json) -> Result<(), Failure> {
    let key = format!("asker/{topic}");
    let Some(asker) = get(host, &key)?.as_str().and_then(|asker| asker.parse().ok()) else { return Ok(()) };
    if *what == "started" {
        return Ok(());
    }
    host.delete(&key)?;
    Ok(host.reply(asker, &cbor::encode(&Value::from(what.clone())))?)
}

fn get(host: &mut dyn Host, key: &str) -> Result<Json, Failure> {
    let Some(bytes) = host.get(key)? else { return Ok(Json::Null) };
    let value: Value = cbor::decode(&bytes).map_err(|error| Failure::new(error.to_string()))?;
    value.to_json().map_err(|error| Failure::new(error.to_string()))
}

fn put(host: &mut dyn Host, key: &str, value: &Json) -> Result<(), Failure> {
    Ok(host.put(key, &cbor::encode(&Value::from(value.clone())))?)
}
