//! The agent as a durable function: a conversation is a loop. `../../main.rs` runs this source as a native program, `mundi program build` makes a
//! component of it.

pub mod types;

use mundi_sdk::{
    Event, Failure, Program, Value, World, durable,
    functions::{Ctx, FunctionError, Functions},
    kinds::HttpRequest,
};
use serde_json::json;

pub struct Agent;

#[durable]
async fn ask(ctx: Ctx, question: String) -> Result<Value, FunctionError> {
    let tool = json!({ "type": "function", "function": {
        "name": "fetch", "description": "Fetches a page.",
        "parameters": { "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] },
    }});
    let mut messages = vec![json!({ "role": "user", "content": question })];
    loop {
        let params = json!({ "messages": messages, "options": { "tools": [tool] } });
        let heard: Value = ctx.effect("llm.chat", &params).await?;
        let calls = heard["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.is_empty() {
            return Ok(heard["content"].clone());
        }
        let said = |call: &Value| {
            let function = json!({ "name": call["name"], "arguments": call["arguments"] });
            json!({ "id": call["id"], "type": "function", "function": function })
        };
        let wanted: Vec<Value> = calls.iter().map(said).collect();
        messages.push(json!({ "role": "assistant", "content": heard["content"], "tool_calls": wanted }));
        // All at once; then their results in the order of the calls.
        let mut pages = Vec::new();
        for call in &calls {
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap_or("{}"))?;
            pages.push(ctx.ask(&HttpRequest::get(arguments["url"].as_str().unwrap_or_default())));
        }
        for (call, page) in calls.iter().zip(pages) {
            // An error is told to the model, too: it may know what to do.
            let content = match page.await {
                Ok(response) => String::from_utf8_lossy(response.bytes()).into_owned(),
                Err(error) if error.effect().is_some() => error.to_string(),
                Err(error) => return Err(error),
            };
            messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": content }));
        }
    }
}

impl Program for Agent {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        Functions::new(Self::OFFER).with::<ask>().handle(world, event).map(drop)
    }
}

mundi_sdk::export!(Agent);
