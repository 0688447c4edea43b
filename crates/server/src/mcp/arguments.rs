//! The arguments of tools.

use super::Refusal;
use mundi_model::Code;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// The most that a list returns at a time: an assistant pays for every item.
const LIST_ITEMS_MAX: usize = 100;
const LIST_ITEMS: usize = 20;

pub(super) fn arguments<T: DeserializeOwned>(given: Value) -> Result<T, Refusal> {
    serde_json::from_value(given).map_err(|error| {
        Refusal::new(Code::RequestInvalid, error.to_string()).hinting("Use the arguments of the tool's input schema.")
    })
}

pub(super) fn limit(given: Option<usize>) -> usize {
    given.unwrap_or(LIST_ITEMS).clamp(1, LIST_ITEMS_MAX)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfWorld {
    pub(super) world: String,
}

/// One text, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Strings {
    One(String),
    All(Vec<String>),
}

impl Strings {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::All(texts) => texts,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindWorlds {
    pub(super) name: Option<String>,
    pub(super) name_contains: Option<String>,
    pub(super) label: Option<Strings>,
    pub(super) state: Option<String>,
    pub(super) program: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) held_by: Option<String>,
    pub(super) created_after: Option<String>,
    pub(super) created_before: Option<String>,
    pub(super) active_after: Option<String>,
    pub(super) active_before: Option<String>,
    pub(super) dead_letters: Option<bool>,
    pub(super) effects_older_than_s: Option<u64>,
    pub(super) on_hold: Option<bool>,
    pub(super) failed: Option<bool>,
    pub(super) sort: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) world: String,
    pub(super) from: Option<u64>,
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) full: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) world: String,
    pub(super) at: Option<u64>,
    pub(super) prefix: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    pub(super) world: String,
    pub(super) query: String,
    #[serde(default)]
    pub(super) params: Value,
    pub(super) at: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sql {
    pub(super) query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    pub(super) world: String,
    pub(super) with: Option<String>,
    pub(super) at: Option<u64>,
    pub(super) with_at: Option<u64>,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rehearse {
    pub(super) world: String,
    pub(super) program: String,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effects {
    pub(super) world: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLetters {
    pub(super) world: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchDocs {
    pub(super) query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadDocs {
    pub(super) page: String,
    #[serde(default)]
    pub(super) from: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateWorld {
    pub(super) world: String,
    pub(super) program: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendEvent {
    pub(super) world: String,
    pub(super) event: String,
    #[serde(default)]
    pub(super) value: Value,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) world: String,
    pub(super) event: String,
    #[serde(default)]
    pub(super) value: Value,
    pub(super) idempotency_key: Option<String>,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    pub(super) world: String,
    pub(super) at: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) program: Option<String>,
    pub(super) event: Option<String>,
    #[serde(default)]
    pub(super) value: Value,
    pub(super) effects: Option<String>,
    pub(super) answers: Option<Value>,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerEffect {
    pub(super) effect: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) payload: Value,
    pub(super) world: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryEffect {
    pub(super) effect: String,
    pub(super) world: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayDeadLetters {
    pub(super) letters: Option<Vec<String>>,
    pub(super) queue: Option<String>,
    pub(super) world: Option<String>,
    pub(super) code: Option<String>,
}
