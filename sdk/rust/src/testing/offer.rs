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
    // For the server: a test world carries out nothing, and checks only that a server would take it.
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    retry: Option<Retry>,
    #[serde(default, rename = "rate")]
    _rate: Option<Rate>,
    #[serde(default)]
    signed: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    attempts_max: u32,
    backoff_ms: u64,
    backoff_ms_max: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    #[serde(rename = "per_second")]
    _per_second: u32,
    #[serde(rename = "burst")]
    _burst: u32,
}

/// The consequence of a failed step; a test world goes on in any case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnFailure {
    #[default]
    Continue,
    #[serde(rename = "pause_after")]
    PauseAfter(#[expect(dead_code, reason = "only its form is checked")] u32),
    Hold,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wasm {
    limits: WasmLimits,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WasmLimits {
    fuel_max: u64,
    memory_bytes_max: u64,
    table_elements_max: u64,
    stack_bytes_max: u64,
}

impl Default for WasmLimits {
    fn default() -> Self {
        Self {
            fuel_max: 50_000_000,
            memory_bytes_max: 128 << 20,
            table_elements_max: 100_000,
            stack_bytes_max: STACK_BYTES_USUAL,
        }
    }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const EFFECT_ATTEMPTS_MAX: u64 = 100;
const STACK_BYTES_USUAL: u64 = 512 << 10;
const STACK_BYTES_MIN: u64 = 64 << 10;

/// Kinds whose receipts no adapter gives, so that they carry no signature.
const UNSIGNED: [&str; 2] = ["world.call", "child.spawn"];

fn anything() -> Value {
    true.into()
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Offer {
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "version")]
    _version: Option<u32>,
    events: BTreeMap<String, Value>,
    pub(crate) effects: BTreeMap<String, Rule>,
    queries: BTreeMap<String, Value>,
    pub(crate) limits: Limits,
    #[serde(rename = "on_failure")]
    _on_failure: OnFailure,
    wasm: Wasm,
}

/// Refuses what is beyond the bounds of the kernel.
fn within(section: &str, bounds: &[(&str, u64, u64)]) -> Result<(), Failure> {
    match bounds.iter().find(|(_, value, most)| value > most) {
        Some((name, value, most)) => Err(invalid(&format!("{section}.{name} is {value}, beyond the kernel's {most}"))),
        None => Ok(()),
    }
}

fn invalid(why: &str) -> Failure {
    Failure::coded("MANIFEST_INVALID", format!("mundi.json: {why}"))
}

impl Rule {
    fn check(&self, kind: &str) -> Result<(), Failure> {
        if self.signed && UNSIGNED.contains(&kind) {
            return Err(invalid(&format!(
                "effects.{kind}.signed: no adapter answers it, so its receipt is not signed"
            )));
        }
        within(&format!("effects.{kind}"), &[("timeout_ms", self.timeout_ms.unwrap_or_default(), DAY_MS)])?;
        let Some(Retry { attempts_max, backoff_ms, backoff_ms_max }) = self.retry else { return Ok(()) };
        within(
            &format!("effects.{kind}.retry"),
            &[
                ("attempts_max", attempts_max.into(), EFFECT_ATTEMPTS_MAX),
                ("backoff_ms", backoff_ms, DAY_MS),
                ("backoff_ms_max", backoff_ms_max, DAY_MS),
            ],
        )
    }
}

impl WasmLimits {
    fn check(&self) -> Result<(), Failure> {
        let stack = self.stack_bytes_max;
        if !stack.is_power_of_two() || stack < STACK_BYTES_MIN {
            let why =
                format!("wasm.limits.stack_bytes_max is {stack}, not a power of two of at least {STACK_BYTES_MIN}");
            return Err(invalid(&why));
        }
        within(
            "wasm.limits",
            &[
                ("fuel_max", self.fuel_max, 1_000_000_000),
                ("memory_bytes_max", self.memory_bytes_max, 256 << 20),
                ("table_elements_max", self.table_elements_max, 100_000),
                ("stack_bytes_max", stack, 1 << 20),
            ],
        )
    }
}

impl Offer {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let offer: Self = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        let limits = &offer.limits;
        let bounds = [
            ("open_intents_max", limits.open_intents_max, 10_000),
            ("timers_max", limits.timers_max, 10_000),
            ("step_calls_max", limits.step_calls_max, 1_000_000),
            ("step_bytes_max", limits.step_bytes_max, 64 << 20),
            ("step_outputs_max", limits.step_outputs_max, 256),
            ("max_active_children", limits.max_active_children, 64),
        ];
        within("limits", &bounds)?;
        offer.effects.iter().try_for_each(|(kind, rule)| rule.check(kind))?;
        offer.wasm.limits.check()?;
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
