//! The protocol: JSON-RPC messages of MCP, of the revisions that begin with `initialize`.
//!
//! Only what a server of tools needs is here: `initialize`, `ping`, `tools/list`, `tools/call`. Written by hand, because the crate `rmcp` turns
//! on a feature of `serde` with which every crate that depends on it, the compiler of components among them, is compiled again.

use super::{
    Session,
    shorten::shortened,
    tools::{self, Right, TOOLS, Tool},
};
use serde_json::{Value, json};

/// The revisions that are spoken, the newest first.
pub(super) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "Mundi runs worlds: durable deterministic programs, each with a journal, an inbox and cells. \
    Heights count records; `head` is the next height. Find a world with find_worlds, read it with describe_world, journal and state \
    (also of the past, by `at`), and explain an error code with docs_search. To find out what another input would have done, use \
    fork_and_try: it never changes the parent. Lists return `next` where there is more.";

/// Error codes of JSON-RPC.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Wants no answer; also the answer to a request that this server never makes.
    Notification {
        method: String,
        params: Value,
    },
}

impl Message {
    /// The error is the answer.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Value> {
        let message: Value =
            serde_json::from_slice(bytes).map_err(|error| failed(&Value::Null, PARSE_ERROR, &error.to_string()))?;
        let id = message["id"].clone();
        if message["jsonrpc"] != "2.0" || !message.is_object() {
            return Err(failed(&id, INVALID_REQUEST, "expected one JSON-RPC 2.0 message"));
        }
        let (method, params) = (message["method"].as_str().map(str::to_owned), message["params"].clone());
        match (method, id) {
            (Some(method), Value::Null) => Ok(Self::Notification { method, params }),
            (Some(method), id @ (Value::String(_) | Value::Number(_))) => Ok(Self::Request { id, method, params }),
            (None, _) => Ok(Self::Notification { method: String::new(), params }),
            (Some(_), id) => Err(failed(&id, INVALID_REQUEST, "an id is a text or a number")),
        }
    }
}

fn failed(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The answer to a request.
pub(super) async fn answer(session: &Session, id: Value, method: &str, params: Value) -> Value {
    let result = match method {
        "initialize" => initialized(&params),
        "ping" => json!({}),
        "tools/list" => {
            let own = TOOLS.iter().filter(|tool| tool.right.is_within(session.rights));
            json!({ "tools": own.map(described).collect::<Vec<_>>() })
        }
        "tools/call" => match params["name"].as_str() {
            Some(name) => called(session, name, &params["arguments"]).await,
            None => return failed(&id, INVALID_PARAMS, "`name` names a tool"),
        },
        other => return failed(&id, METHOD_NOT_FOUND, &format!("there is no method `{other}`")),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A revision that is not known is answered with the newest that is.
fn initialized(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "mundi", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

fn described(tool: &Tool) -> Value {
    let annotations =
        json!({ "readOnlyHint": tool.right == Right::Read, "destructiveHint": tool.name == "skip_input" });
    json!({ "name": tool.name, "description": tool.about, "inputSchema": tool.schema(), "annotations": annotations })
}

/// A refusal is a result, too: the assistant reads it.
async fn called(session: &Session, name: &str, given: &Value) -> Value {
    let given = if given.is_null() { json!({}) } else { given.clone() };
    let (content, is_error) = match tools::run(session, name, given).await {
        Ok(found) => (object(shortened(&found)), false),
        Err(refusal) => (refusal.to_json(), true),
    };
    let text = json!({ "type": "text", "text": content.to_string() });
    json!({ "content": [text], "structuredContent": content, "isError": is_error })
}

/// Structured content is an object.
fn object(value: Value) -> Value {
    if value.is_object() { value } else { json!({ "result": value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |text: &str| Message::read(text.as_bytes());
        assert!(matches!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(Message::Request { .. })));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Ok(Message::Notification { .. })
        ));
        for (text, code) in [
            ("nonsense", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID_REQUEST),
        ] {
            assert_eq!(read(text).unwrap_err()["error"]["code"], code, "{text}");
        }
    }

    #[test]
    fn the_revision_of_the_client_is_spoken_if_it_is_known() {
        let version = |wanted: &str| initialized(&json!({ "protocolVersion": wanted }))["protocolVersion"].clone();
        assert_eq!(version("2025-06-18"), "2025-06-18");
        assert_eq!(version("2099-01-01"), VERSIONS[0]);
    }
}
