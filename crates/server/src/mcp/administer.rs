//! Tools of callers who may `admin`.

use super::{
    Outcome, Session,
    arguments::{AnswerEffect, OfWorld, ReplayDeadLetters, RetryEffect},
    escape, query,
};
use serde_json::{Value, json};

/// `pause`, `resume`, `retry` or `skip`.
pub(super) async fn command(session: &Session, verb: &str, given: &OfWorld) -> Outcome {
    session.post(&format!("worlds/{}/{verb}", escape(&given.world)), Value::Null).await
}

pub(super) async fn retry_effect(session: &Session, given: RetryEffect) -> Outcome {
    let world = query(&[("world", given.world)]);
    session.post(&format!("effects/retry/{}{world}", escape(&given.effect)), Value::Null).await
}

pub(super) async fn answer_effect(session: &Session, given: AnswerEffect) -> Outcome {
    let AnswerEffect { effect, status, payload, world } = given;
    let body = json!({ "status": status, "payload": payload, "world": world });
    session.post(&format!("effects/answer/{}", escape(&effect)), body).await
}

pub(super) async fn replay_dead_letters(session: &Session, given: ReplayDeadLetters) -> Outcome {
    let ReplayDeadLetters { letters, queue, world, code } = given;
    let body = json!({ "action": "replay", "letters": letters, "queue": queue, "world": world, "code": code });
    session.post("dead-letters", body).await
}
