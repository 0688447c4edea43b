//! Refusals of the server, and the absence of an answer.

use serde_json::Value;

/// The class of an error, by the caller's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Another request came first.
    Conflict,
    NotFound,
    /// The request itself is wrong.
    Invalid,
    /// The right to do this was lost.
    Fenced,
    /// A bound was reached.
    Full,
    /// It cannot be done now.
    Unavailable,
    /// Stored data is damaged.
    Corrupt,
    /// No server answered.
    Unreachable,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "conflict" => Self::Conflict,
            "not_found" => Self::NotFound,
            "invalid" => Self::Invalid,
            "fenced" => Self::Fenced,
            "full" => Self::Full,
            "unavailable" => Self::Unavailable,
            "corrupt" => Self::Corrupt,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Error {
    /// Stable: `WORLD_NOT_FOUND`. Each has a page in the documentation.
    pub code: String,
    pub kind: Kind,
    /// The advice.
    pub hint: String,
    pub detail: String,
    /// Of the answer; 0 if there was none.
    pub status: u16,
    /// The whole refusal.
    pub problem: Value,
}

impl Error {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, Kind::Full | Kind::Unavailable | Kind::Unreachable)
    }

    /// Whether a call was not answered in time. Its reply can be asked for by the name that `call` returns.
    pub fn is_call_timeout(&self) -> bool {
        self.code == "CALL_TIMEOUT"
    }

    /// The name of a call that was not answered in time.
    pub fn call(&self) -> Option<&str> {
        self.problem["call"].as_str()
    }

    pub(crate) fn unreachable(url: &str, error: &reqwest::Error) -> Self {
        let why = if error.is_connect() { "nobody listens there".to_owned() } else { error.to_string() };
        Self {
            code: "UNREACHABLE".to_owned(),
            kind: Kind::Unreachable,
            hint: "Check that the server runs and that the address is right.".to_owned(),
            detail: format!("{url} does not answer: {why}"),
            status: 0,
            problem: Value::Null,
        }
    }

    /// An answer that is not what the API promises.
    pub(crate) fn unexpected(error: &serde_json::Error) -> Self {
        Self {
            code: "ANSWER_UNEXPECTED".to_owned(),
            kind: Kind::Invalid,
            hint: "Check that the address is that of a Mundi server, and that the type fits the answer.".to_owned(),
            detail: error.to_string(),
            status: 200,
            problem: Value::Null,
        }
    }

    pub(crate) fn no_randomness(why: &str) -> Self {
        Self {
            code: "NO_RANDOMNESS".to_owned(),
            kind: Kind::Unavailable,
            hint: "Give the request an idempotency key.".to_owned(),
            detail: format!("the system gives no randomness for an idempotency key: {why}"),
            status: 0,
            problem: Value::Null,
        }
    }

    pub(crate) fn refused(status: u16, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        let of_status = if status >= 500 { Kind::Unavailable } else { Kind::Invalid };
        let (code, detail) = (text("code"), text("detail"));
        Self {
            code: if code.is_empty() { format!("HTTP_{status}") } else { code },
            kind: problem["kind"].as_str().and_then(Kind::of).unwrap_or(of_status),
            hint: text("hint"),
            detail: if detail.is_empty() { format!("the server answered {status}") } else { detail },
            status,
            problem,
        }
    }
}
