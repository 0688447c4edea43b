//! The adapters that leave the process, against real servers and real commands on this machine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod client;
mod http;
mod llm;
mod process;
mod server;

use mundi_model::{Height, IntentHash, UniverseId, Value, WorldId};
use mundi_runtime::effects::Call;
use mundi_store::testing::unheld;

pub(crate) fn call(kind: &str, params: Value) -> Call {
    Call {
        universe: UniverseId::from_bytes([1; 16]),
        world: WorldId::from_bytes([2; 16]),
        intent: IntentHash::of(b"intent"),
        asked_at_ns: 7,
        height: Height::new(1),
        kind: kind.into(),
        params,
        timeout_ms: 30_000,
        attempt: 1,
        trace: None,
        lease: None,
        claim: unheld(UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]), IntentHash::of(b"intent")),
    }
}

pub(crate) fn params(json: serde_json::Value) -> Value {
    Value::from(json)
}

pub(crate) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let Value::Map(fields) = value else { panic!("not a map: {value:?}") };
    &fields[name]
}
