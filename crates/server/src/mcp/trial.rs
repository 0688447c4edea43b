//! Fork and try: fork a world at a height, change one thing, let it run until it is idle or a bound is reached, and return the difference.

use super::{
    Outcome, Refusal, Session,
    arguments::{Diff, Journal, Trial},
    change::wait_ms,
    escape, look,
};
use mundi_model::Code;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A world whose head stays where it is so often, with an empty inbox, is idle.
const STILL_LOOKS: u32 = 3;

pub(super) async fn fork_and_try(session: &Session, given: Trial) -> Outcome {
    let Trial { world, at, name, program, event, value, effects, answers, timeout_ms } = given;
    if event.is_none() && program.is_none() {
        return Err(Refusal::new(Code::RequestInvalid, "nothing is changed")
            .hinting("Give an `event` with its `value`, a `program`, or both."));
    }
    let until = Instant::now() + Duration::from_millis(wait_ms(timeout_ms));
    let effects = effects.unwrap_or_else(|| "sandbox".to_owned());
    let body = json!({ "world": name, "at": at, "effects": effects, "program": program, "answers": answers });
    let fork = session.post(&format!("worlds/{}/fork", escape(&world)), given_members(body)).await?;
    let id = fork["world"].as_str().unwrap_or_default().to_owned();
    let forked_at = fork["forked_at"].as_u64().unwrap_or_default();
    let reply = match event {
        Some(event) => Some(attempted(session, &id, &event, value, until).await?),
        None => None,
    };
    let (is_idle, now) = settled(session, &id, until).await?;
    let records = Journal { world: id.clone(), from: Some(forked_at), limit: None, full: false };
    let difference =
        Diff { world: id.clone(), with: Some(world), at: None, with_at: Some(forked_at), after: None, limit: None };
    Ok(json!({
        "fork": fork["name"].as_str().unwrap_or(&id),
        "world": id,
        "forked_at": forked_at,
        "effects": fork["effects"],
        "reply": reply,
        "idle": is_idle,
        "head": now["head"],
        "waits": now["waits"],
        "hold": now["hold"],
        "records": look::journal(session, records).await?,
        "difference": look::diff(session, difference).await?,
        "hint": "`difference` compares the fork now with its parent at `forked_at`. The fork stays: look at it with the other tools.",
    }))
}

/// The members that are not null: what is not given is not said.
fn given_members(body: Value) -> Value {
    match body {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

/// The reply to the event, or what came in its place. That a program fails is a result of the trial, too.
async fn attempted(session: &Session, world: &str, event: &str, value: Value, until: Instant) -> Outcome {
    let left_ms = until.saturating_duration_since(Instant::now()).as_millis().max(1);
    let path = format!("worlds/{}/call/{}?timeout={left_ms}ms", escape(world), escape(event));
    match session.ask("POST", &path, Some(value), None).await {
        Ok(reply) => Ok(json!({ "ok": reply })),
        Err(refusal) if refusal.call.is_some() => Ok(json!({ "failed": refusal.to_json() })),
        Err(refusal) => Err(refusal),
    }
}

/// Whether the world became idle in time, and how it is.
async fn settled(session: &Session, world: &str, until: Instant) -> Result<(bool, Value), Refusal> {
    let (mut head, mut still) = (Value::Null, 0);
    loop {
        let now = session.get(&format!("worlds/{}", escape(world))).await?;
        let is_empty = now["inbox_items"].as_u64() == Some(0) || !now["hold"].is_null();
        still = if is_empty && now["head"] == head { still + 1 } else { 0 };
        head = now["head"].clone();
        let is_idle = still >= STILL_LOOKS;
        if is_idle || Instant::now() >= until {
            return Ok((is_idle, now));
        }
        sleep(LOOK_EVERY).await;
    }
}
