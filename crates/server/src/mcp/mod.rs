//! The server as an MCP server (Model Context Protocol), for assistants: over stdio (`mundi mcp`) and at `/mcp` (streamable HTTP).
//!
//! Every tool is a few requests to the HTTP API, made with the rights of whoever is connected. So a tool can do nothing that the same
//! token could not do over the API, and this module knows neither a node nor a store. Results are small: values are cut, lists have a
//! `next`. The protocol itself is in `protocol.rs`.

mod administer;
mod arguments;
mod change;
mod documents;
mod http;
mod look;
mod protocol;
mod shorten;
mod stdio;
mod tools;
mod trial;

pub(crate) use http::route;
pub use stdio::serve_stdio;

use futures_util::future::BoxFuture;
use mundi_model::Code;
use serde_json::{Value, json};
use std::sync::Arc;

/// A request to the API.
#[derive(Debug, Clone)]
pub struct Ask {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// With its parameters.
    pub path: String,
    pub body: Option<Value>,
    pub idempotency_key: Option<String>,
}

/// Why a tool did not do what was asked. The assistant sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub code: String,
    pub detail: String,
    /// The advice.
    pub hint: String,
    /// The name of a call that was not answered in time.
    pub call: Option<String>,
}

impl Refusal {
    fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code: code.as_str().to_owned(), detail: detail.into(), hint: code.hint().to_owned(), call: None }
    }

    fn hinting(self, hint: &str) -> Self {
        Self { hint: hint.to_owned(), ..self }
    }

    /// The refusal in the body of a problem.
    pub fn of_problem(status: u16, problem: &Value) -> Self {
        let text = |name: &str| problem[name].as_str().map(str::to_owned);
        Self {
            code: text("code").unwrap_or_else(|| format!("HTTP_{status}")),
            detail: text("detail").unwrap_or_else(|| format!("the server answered {status}")),
            hint: text("hint").unwrap_or_default(),
            call: text("call"),
        }
    }

    fn to_json(&self) -> Value {
        let mut json = json!({ "code": self.code, "detail": self.detail, "hint": self.hint });
        if let Some(call) = &self.call {
            json["call"] = call.as_str().into();
        }
        json
    }
}

/// Makes the requests: a client of another process, or this process itself.
pub trait Backend: Send + Sync + 'static {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Value, Refusal>>;
}

/// The rights of a connected assistant besides reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights {
    pub send: bool,
    pub admin: bool,
}

impl Rights {
    /// From the names of verbs; the first that is none is the error.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, &'n str> {
        let mut rights = Self::default();
        for name in names {
            match name {
                "read" => {}
                "send" => rights.send = true,
                "admin" => rights.admin = true,
                other => return Err(other),
            }
        }
        Ok(rights)
    }
}

/// A connected client: its rights and its universe.
#[derive(Clone)]
pub struct Session {
    pub backend: Arc<dyn Backend>,
    pub rights: Rights,
    pub universe: String,
}

type Outcome = Result<Value, Refusal>;

impl Session {
    /// A path below the universe.
    fn of(&self, path: &str) -> String {
        format!("/v1/u/{}/{path}", escape(&self.universe))
    }

    async fn get(&self, path: &str) -> Outcome {
        self.ask("GET", path, None, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Outcome {
        self.ask("POST", path, Some(body), None).await
    }

    /// `path` is below the universe.
    async fn ask(&self, method: &'static str, path: &str, body: Option<Value>, key: Option<String>) -> Outcome {
        let ask = Ask { method, path: self.of(path), body, idempotency_key: key };
        self.backend.ask(ask).await
    }
}

/// A text escaped for a path or a parameter.
fn escape(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Parameters of an address; those that are not given are left out.
fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))));
    let given: Vec<_> = given.collect();
    if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
}
