//! The program: pure, so that every conversation can be replayed, forked and explained.

use mundi::{
    ReceiptStatus, Value, cbor,
    manifest::{EffectRule, Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program},
};
use serde_json::{Value as Json, json};

pub(crate) struct Agent;

pub(crate) fn declare(manifest: &mut Manifest) {
    manifest.events.insert("ask".to_owned(), Schema(json!({ "type": "string" })));
    for kind in ["llm.chat", "http.request"] {
        manifest.effects.insert(kind.to_owned(), EffectRule::default());
    }
}

impl Program for Agent {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { value, .. } => {
                put(host, "asker", &json!(event.seq.to_string()))?;
                say(host, json!({ "role": "user", "content": json(value)? }))?;
                think(host)
            }
            Cause::Receipt { label: "think", status, payload, .. } => heard(host, status, payload),
            Cause::Receipt { label, payload, .. } => {
                say(host, json!({ "role": "tool", "tool_call_id": label, "content": body(payload)? }))?;
                let open = get(host, "open")?.as_u64().unwrap_or(1) - 1;
                put(host, "open", &json!(open))?;
                if open == 0 { think(host) } else { Ok(()) }
            }
            Cause::Message { .. } | Cause::Timer { .. } | Cause::Upgraded { .. } => Ok(()),
        }
    }
}

/// Asks the model to go on with the conversation.
fn think(host: &mut dyn Host) -> Result<(), Failure> {
    let tool = json!({ "type": "function", "function": {
        "name": "fetch", "description": "Fetches a page.",
        "parameters": { "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] },
    }});
    let params = json!({ "messages": get(host, "messages")?, "options": { "tools": [tool] } });
    Ok(host.emit("llm.chat", &cbor::encode(&Value::from(params)), "think")?)
}

/// The model answers, or wants to have something done first.
fn heard(host: &mut dyn Host, status: ReceiptStatus, payload: &[u8]) -> Result<(), Failure> {
    let heard = json(payload)?;
    if status != ReceiptStatus::Ok {
        return answer(host, &json!({ "failed": heard }));
    }
    let calls = heard["tool_calls"].as_array().cloned().unwrap_or_default();
    if calls.is_empty() {
        say(host, json!({ "role": "assistant", "content": heard["content"] }))?;
        return answer(host, &heard["content"]);
    }
    let said = |call: &Json| {
        let function = json!({ "name": call["name"], "arguments": call["arguments"] });
        json!({ "id": call["id"], "type": "function", "function": function })
    };
    let wanted: Vec<Json> = calls.iter().map(said).collect();
    say(host, json!({ "role": "assistant", "content": heard["content"], "tool_calls": wanted }))?;
    put(host, "open", &json!(calls.len()))?;
    for call in &calls {
        let arguments = serde_json::from_str(call["arguments"].as_str().unwrap_or("{}"));
        let arguments: Json = arguments.map_err(|error| Failure::new(error.to_string()))?;
        let params = cbor::encode(&Value::from(json!({ "url": arguments["url"] })));
        host.emit("http.request", &params, call["id"].as_str().unwrap_or_default())?;
    }
    Ok(())
}

/// Replies to the event that began it, however long ago that was.
fn answer(host: &mut dyn Host, answer: &Json) -> Result<(), Failure> {
    let asker = get(host, "asker")?;
    let asker = asker.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Failure::new("nobody asked"))?;
    Ok(host.reply(asker, &cbor::encode(&Value::from(answer.clone())))?)
}

fn say(host: &mut dyn Host, message: Json) -> Result<(), Failure> {
    let mut messages = get(host, "messages")?.as_array().cloned().unwrap_or_default();
    messages.push(message);
    put(host, "messages", &Json::Array(messages))
}

fn get(host: &mut dyn Host, key: &str) -> Result<Json, Failure> {
    host.get(key)?.map_or(Ok(Json::Null), |bytes| json(&bytes))
}

fn put(host: &mut dyn Host, key: &str, value: &Json) -> Result<(), Failure> {
    Ok(host.put(key, &cbor::encode(&Value::from(value.clone())))?)
}

fn value(bytes: &[u8]) -> Result<Value, Failure> {
    cbor::decode(bytes).map_err(|error| Failure::new(error.to_string()))
}

fn json(bytes: &[u8]) -> Result<Json, Failure> {
    value(bytes)?.to_json().map_err(|error| Failure::new(error.to_string()))
}

/// The text of a page. An error is passed to the model, too: it may know the next step.
fn body(payload: &[u8]) -> Result<String, Failure> {
    Ok(match value(payload)? {
        Value::Map(answer) => match answer.get("body") {
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => format!("{answer:?}"),
        },
        other => format!("{other:?}"),
    })
}
