//! The permissions of a program's `mundi.json`.

use super::schema::is_valid;
use crate::{Bytes, Failure, Value, bytes, cbor, kinds};
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) open_intents_max: u64,
    pub(crate) timers_max: u64,
    pub(crate) step_calls_max: u64,
    pub(crate) step_bytes_max: u64,
    pub(crate) step_outputs_max: u64,
    max_active_children: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_intents_max: 1_000,
            timers_max: 1_000,
            step_calls_max: 100_000,
            step_bytes_max: 16 << 20,
            step_outputs_max: 256,
            max_active_children: 2,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(default = "anything")]
    params: Value,
    #[serde(default = "anything")]
    receipt: Value,
    #[serde(default)]
    pub(crate) message_ids: bool,
    // For the server: a test world carries out nothing.
    #[serde(default, rename = "timeout_ms")]
    _timeout_ms: Option<u64>,
    #[serde(default, rename = "retry")]
    _retry: Value,
    #[serde(default, rename = "rate")]
    _rate: Value,
    #[serde(default, rename = "signed")]
    _signed: bool,
}

fn anything() -> Value {
    true.into()
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Offer {
    #[serde(rename = "name")]
    _name: Value,
    #[serde(rename = "version")]
    _version: Value,
    events: BTreeMap<String, Value>,
    pub(crate) effects: BTreeMap<String, Rule>,
    queries: BTreeMap<String, Value>,
    pub(crate) limits: Limits,
    #[serde(rename = "on_failure")]
    _on_failure: Value,
    #[serde(rename = "wasm")]
    _wasm: Value,
}

impl Offer {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = |why: String| Failure::coded("MANIFEST_INVALID", format!("mundi.json: {why}"));
        let offer: Self = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let limits = &offer.limits;
        for (name, value, most) in [
            ("open_intents_max", limits.open_intents_max, 10_000),
            ("timers_max", limits.timers_max, 10_000),
            ("step_calls_max", limits.step_calls_max, 1_000_000),
            ("step_bytes_max", limits.step_bytes_max, 64 << 20),
            ("step_outputs_max", limits.step_outputs_max, 256),
            ("max_active_children", limits.max_active_children, 64),
        ] {
            if value > most {
                return Err(invalid(format!("limits.{name} is {value}, beyond the kernel's {most}")));
            }
        }
        Ok(offer)
    }

    pub(crate) fn check_event(&self, schema: &str, value: &[u8]) -> Result<(), Failure> {
        check(self.events.get(schema), "event", schema, value, "EVENT_INVALID")
    }

    pub(crate) fn check_query(&self, name: &str, params: &[u8]) -> Result<(), Failure> {
        check(self.queries.get(name), "query", name, params, "QUERY_INVALID")
    }

    pub(crate) fn check_effect(&self, kind: &str, params: &[u8]) -> Result<(), Failure> {
        check(self.effects.get(kind).map(|rule| &rule.params), "effect", kind, params, "OUTPUT_REFUSED")
    }

    /// Whether the payload of an `ok` receipt satisfies the manifest's schema.
    pub(crate) fn accepts_receipt(&self, kind: &str, payload: &[u8]) -> Result<bool, Failure> {
        let schema = self.effects.get(kind).map(|rule| &rule.receipt);
        match check(schema, "receipt of", kind, payload, "RECEIPT_INVALID") {
            Err(refused) if refused.code == "RECEIPT_INVALID" => Ok(schema.is_none()),
            checked => checked.map(|()| true),
        }
    }
}

/// A receipt that the kind's own adapter could never give: the test is wrong, and hears so.
pub(crate) fn check_builtin_receipt(kind: &str, payload: &[u8]) -> Result<(), Failure> {
    fn reads<T: DeserializeOwned>(payload: &[u8]) -> Result<(), cbor::CborError> {
        cbor::from_slice::<T>(payload).map(drop)
    }
    let read = match kind {
        "http.request" => reads::<kinds::HttpResponse>(payload),
        "llm.chat" => reads::<kinds::LlmAnswer>(payload),
        "blob.put" => reads::<kinds::Blob>(payload),
        "blob.get" => reads::<kinds::BlobContent>(payload),
        "process.run" => reads::<kinds::ProcessResult>(payload),
        "fabric.send" => reads::<kinds::Sent>(payload),
        "world.spawn" => reads::<kinds::Spawned>(payload),
        "world.fork" => reads::<kinds::Forked>(payload),
        _ => Ok(()),
    };
    read.map_err(|error| Failure::coded("RECEIPT_INVALID", format!("no `{kind}` answers so: {error}")))
}

fn check(schema: Option<&Value>, what: &str, name: &str, value: &[u8], code: &'static str) -> Result<(), Failure> {
    let refused = |why: String| Failure::coded(code, why);
    let Some(schema) = schema else {
        return Err(refused(format!("mundi.json declares no {what} `{name}`")));
    };
    let value = cbor::decode(value).map_err(|error| refused(format!("the {what} `{name}`: {error}")))?;
    // An unknown keyword is no answer of a server: the test is told.
    let valid = is_valid(schema, &seen(value)).map_err(|why| Failure::coded("SCHEMA_UNSUPPORTED", why))?;
    if valid { Ok(()) } else { Err(refused(format!("the {what} `{name}` does not satisfy its schema"))) }
}

/// The value as a schema sees it: bytes are a text in base 64.
fn seen(value: Value) -> Value {
    if let Some(found) = bytes::in_value(&value) {
        return bytes::encode(&Bytes(found)).into();
    }
    match value {
        Value::Array(items) => items.into_iter().map(seen).collect(),
        Value::Object(entries) => entries.into_iter().map(|(name, part)| (name, seen(part))).collect(),
        other => other,
    }
}
