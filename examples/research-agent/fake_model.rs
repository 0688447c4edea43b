//! A model that is none, and pages about drinks: enough to run the planner without a network.
//!
//! It reads a page about tea and sums it up. About coffee it thinks for longer than anybody waits. About cocoa it is wordy.

use mundi_examples::{Request, outside, streamed};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};

const SLOW: Duration = Duration::from_secs(600);

pub(crate) fn start() -> std::io::Result<SocketAddr> {
    outside(|request| match &*request.line {
        "GET /tea" => (200, "Tea is steeped.".to_owned()),
        _ => (200, answer(request)),
    })
}

#[expect(clippy::disallowed_methods, reason = "a model that is slow by the clock of the wall")]
fn answer(request: &Request) -> String {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let topic = messages.iter().find(|message| message["role"] == "user");
    let topic = topic.and_then(|message| message["content"].as_str()).unwrap_or_default();
    let seen = messages.iter().rev().find(|message| message["role"] == "tool");
    match (topic, seen) {
        ("tea", None) => streamed(&fetch(&format!("http://{}/tea", request.host)), 40),
        ("tea", Some(seen)) => {
            let page: Value = serde_json::from_str(seen["content"].as_str().unwrap_or_default()).unwrap_or_default();
            streamed(&json!({ "content": format!("I read: {}", page["body"].as_str().unwrap_or_default()) }), 40)
        }
        ("coffee", _) => {
            std::thread::sleep(SLOW);
            streamed(&json!({ "content": "Coffee, at last." }), 40)
        }
        (topic, _) => streamed(&json!({ "content": format!("There is much to say about {topic}.") }), 100),
    }
}

fn fetch(url: &str) -> Value {
    let function = json!({ "name": "fetch", "arguments": json!({ "url": url }).to_string() });
    json!({ "tool_calls": [{ "index": 0, "id": "call-1", "type": "function", "function": function }] })
}
