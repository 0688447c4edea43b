//! Tools of callers who may `send`.

use super::{
    Outcome, Session,
    arguments::{Call, CreateWorld, SendEvent},
    escape,
};
use serde_json::json;

/// The longest that a tool waits for a reply, or for a world to become idle.
pub(super) const WAIT_MS_MAX: u64 = 30_000;
const WAIT_MS: u64 = 10_000;

pub(super) fn wait_ms(given: Option<u64>) -> u64 {
    given.unwrap_or(WAIT_MS).min(WAIT_MS_MAX)
}

pub(super) async fn create_world(session: &Session, given: CreateWorld) -> Outcome {
    session.post("worlds", json!({ "world": given.world, "program": given.program })).await
}

pub(super) async fn send_event(session: &Session, given: SendEvent) -> Outcome {
    let path = format!("worlds/{}/send/{}", escape(&given.world), escape(&given.event));
    session.ask("POST", &path, Some(given.value), given.idempotency_key).await
}

pub(super) async fn call(session: &Session, given: Call) -> Outcome {
    let (world, event, wait_ms) = (escape(&given.world), escape(&given.event), wait_ms(given.timeout_ms));
    let path = format!("worlds/{world}/call/{event}?timeout={wait_ms}ms");
    let reply = session.ask("POST", &path, Some(given.value), given.idempotency_key).await?;
    Ok(json!({ "reply": reply }))
}
