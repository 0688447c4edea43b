//! `kv`: cells under the caller's own keys, timers and effects: enough to try everything out.
//!
//! Events: `put` {key, value}, `delete` {key}, `remind` {key, value, in_ms} (a `put` by a timer), `ask` {kind, params, key}
//! (an effect whose answer is put under the key), `tell` {world, key, value} (a `put` in another world).
//! Queries: `get` key, `list` prefix. `put` and `delete` reply with what was there before.
//!
//! Version 3 takes the name of a world in `tell`, too; before, only an id. Version 2 refuses an `in_ms` that is no integer, or more than
//! ten years; version 1 took such a number for 0.

use super::{declare_all, value};
use mundi_kernel::{
    manifest::{EffectRule, Manifest},
    program::{Cause, Event, Failure, Host, Outgoing, Program, SendOptions, View},
};
use mundi_model::{Value, WorldAddress, WorldId, cbor, limits};
use serde_json::json;
use std::collections::BTreeMap;

/// By its versions: a journal is replayed by the one that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kv {
    First,
    Second,
    Current,
}

const IN_MS_MAX: u64 = 10 * 365 * 86_400_000;

/// The effects that `ask` may ask for.
const EFFECTS: [&str; 6] = ["http.request", "llm.chat", "blob.put", "blob.get", "process.run", "external.task"];

pub(super) fn declare(manifest: &mut Manifest) {
    declare_with(manifest, &json!({"type": "integer", "minimum": 0, "maximum": IN_MS_MAX}));
}

/// The schemas of version 1.
pub(super) fn declare_first(manifest: &mut Manifest) {
    declare_with(manifest, &json!({"type": "integer", "minimum": 0}));
}

fn declare_with(manifest: &mut Manifest, in_ms: &serde_json::Value) {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 256});
    let object = |properties: serde_json::Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let events = [
        ("put", object(json!({"key": key, "value": true}), &["key", "value"])),
        ("delete", object(json!({"key": key}), &["key"])),
        ("remind", object(json!({"key": key, "value": true, "in_ms": in_ms}), &["key", "value", "in_ms"])),
        (
            "ask",
            object(
                json!({"key": key, "kind": {"enum": EFFECTS}, "params": {"type": "object"}}),
                &["key", "kind", "params"],
            ),
        ),
        ("tell", object(json!({"world": {"type": "string"}, "key": key, "value": true}), &["world", "key", "value"])),
    ];
    let queries = [("get", json!({"type": "string"})), ("list", json!({"type": ["string", "null"]}))];
    declare_all(manifest, &events, &queries);
    let effects = EFFECTS.iter().chain(&["fabric.send"]);
    manifest.effects = effects.map(|kind| ((*kind).to_owned(), EffectRule::default())).collect();
}

/// The fields of an event; the schema has seen that they are there.
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn of(bytes: &[u8]) -> Result<Self, Failure> {
        match value(bytes)? {
            Value::Map(fields) => Ok(Self(fields)),
            _ => Err(Failure::new("expected an object")),
        }
    }

    fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(text) => text,
            _ => "",
        }
    }
}

impl Program for Kv {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        match event.cause {
            Cause::Event { schema, value, .. } => self.take(host, event, schema, &Fields::of(value)?),
            Cause::Receipt { label, payload, .. } => {
                if let Some(key) = label.strip_prefix("ask/") {
                    host.put(key, payload)?;
                }
                Ok(())
            }
            Cause::Timer { label, payload } => Ok(host.put(label, payload)?),
            Cause::Message { inbox, payload, .. } => Ok(host.put(inbox, payload)?),
            Cause::Upgraded { .. } => Ok(()),
        }
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let text = match value(params)? {
            Value::Text(text) => text,
            _ => String::new(),
        };
        if name == "get" {
            return Ok(view.get(&text)?.unwrap_or_else(null));
        }
        let entries = view.scan(&text, None, limits::SCAN_ITEMS_MAX)?;
        let entry = |(key, bytes): (String, Vec<u8>)| Ok((key, value(&bytes)?));
        let entries = entries.into_iter().map(entry).collect::<Result<BTreeMap<_, _>, Failure>>()?;
        Ok(cbor::encode(&Value::Map(entries)))
    }
}

fn null() -> Vec<u8> {
    cbor::encode(&Value::Null)
}

impl Kv {
    fn take(self, host: &mut dyn Host, event: &Event<'_>, schema: &str, fields: &Fields) -> Result<(), Failure> {
        let (key, given) = (fields.text("key"), cbor::encode(fields.get("value")));
        let reply = match schema {
            "put" => {
                let before = host.get(key)?;
                host.put(key, &given)?;
                before
            }
            "delete" => {
                let before = host.get(key)?;
                host.delete(key)?;
                before
            }
            "remind" => {
                let in_ms = self.in_ms(fields.get("in_ms"))?;
                let due_ns = host.logical_now_ns().saturating_add(in_ms.saturating_mul(1_000_000));
                host.set_timer(key, due_ns, &given)?;
                None
            }
            "ask" => {
                host.emit(fields.text("kind"), &cbor::encode(fields.get("params")), &format!("ask/{key}"))?;
                None
            }
            _ => {
                let to = self.address(fields.text("world"))?;
                let put =
                    [("key".to_owned(), fields.get("key").clone()), ("value".to_owned(), fields.get("value").clone())];
                let put = cbor::encode(&Value::Map(put.into()));
                host.send_to(&to, &Outgoing::Event { schema: "put", value: &put }, &SendOptions::default(), "")?;
                None
            }
        };
        if event.origin.wants_reply {
            host.reply(event.seq, &reply.unwrap_or_else(null))?;
        }
        Ok(())
    }

    /// The world that an event names.
    fn address(self, text: &str) -> Result<WorldAddress, Failure> {
        match self {
            Self::First | Self::Second => {
                let id = text.parse::<WorldId>().map_err(|_| Failure::new("that is no id of a world"))?;
                Ok(id.into())
            }
            Self::Current => text.parse().map_err(|error| Failure::new(format!("`world`: {error}"))),
        }
    }

    fn in_ms(self, given: &Value) -> Result<u64, Failure> {
        let in_ms = match given {
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        match self {
            Self::First => Ok(in_ms.unwrap_or(0)),
            Self::Second | Self::Current => in_ms.ok_or_else(|| Failure::new("`in_ms` is no integer")),
        }
    }
}
