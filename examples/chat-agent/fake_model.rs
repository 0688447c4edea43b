//! A model that is none, and a weather service: enough to run the agent without a network.

use mundi_examples::{Request, outside, streamed};
use serde_json::{Value, json};
use std::net::SocketAddr;

pub(crate) fn start() -> std::io::Result<SocketAddr> {
    // It is asked to fetch a page of its own server, whose address it learns from the request.
    outside(|request| match &*request.line {
        "GET /weather" => (200, "21 degrees".to_owned()),
        _ => (200, streamed(&reply(request), 2)),
    })
}

/// First it wants to look at the weather, then it tells what it saw.
fn reply(request: &Request) -> Value {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    match messages.iter().rev().find(|message| message["role"] == "tool") {
        Some(seen) => json!({ "content": format!("It is {} there.", seen["content"].as_str().unwrap_or_default()) }),
        None => {
            let arguments = json!({ "url": format!("http://{}/weather", request.host) }).to_string();
            let function = json!({ "name": "fetch", "arguments": arguments });
            json!({ "tool_calls": [{ "index": 0, "id": "call-1", "type": "function", "function": function }] })
        }
    }
}
