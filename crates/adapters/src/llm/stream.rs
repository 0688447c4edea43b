//! The pieces of a streamed answer, put together again.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Collected {
    pub(super) model: Option<String>,
    pub(super) content: String,
    pub(super) finish_reason: Option<String>,
    /// By their index in the answer; each comes in pieces, like the text.
    pub(super) tool_calls: BTreeMap<u64, Json>,
    pub(super) usage: Option<Json>,
}

impl Collected {
    /// Reads server-sent events up to `[DONE]`; or one JSON object, from an endpoint that does not stream.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let body = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let mut collected = Self::default();
        if body.trim_start().starts_with('{') {
            collected.add(&parse(body)?, "message")?;
            return Ok(collected);
        }
        for data in body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim) {
            if data == "[DONE]" {
                return Ok(collected);
            }
            collected.add(&parse(data)?, "delta")?;
        }
        // A stream that breaks off says so by its missing end: half an answer is none.
        Err("the stream ended before its end".to_owned())
    }

    fn add(&mut self, piece: &Json, part: &str) -> Result<(), String> {
        if let Some(error) = piece.get("error") {
            return Err(format!("the endpoint says: {error}"));
        }
        let owned = |value: &Json| value.as_str().map(str::to_owned);
        self.model = self.model.take().or_else(|| owned(&piece["model"]));
        if piece["usage"].is_object() {
            self.usage = Some(piece["usage"].clone());
        }
        let choice = &piece["choices"][0];
        self.finish_reason = owned(&choice["finish_reason"]).or(self.finish_reason.take());
        self.content.push_str(choice[part]["content"].as_str().unwrap_or_default());
        for call in choice[part]["tool_calls"].as_array().into_iter().flatten() {
            self.add_tool_call(call);
        }
        Ok(())
    }

    fn add_tool_call(&mut self, piece: &Json) {
        let index = piece["index"].as_u64().unwrap_or(self.tool_calls.len() as u64);
        let call = self.tool_calls.entry(index).or_insert_with(|| json!({ "id": "", "name": "", "arguments": "" }));
        for (field, found) in
            [("id", &piece["id"]), ("name", &piece["function"]["name"]), ("arguments", &piece["function"]["arguments"])]
        {
            let before = call[field].as_str().unwrap_or_default();
            call[field] = format!("{before}{}", found.as_str().unwrap_or_default()).into();
        }
    }
}

fn parse(text: &str) -> Result<Json, String> {
    mundi_model::json::read(text.as_bytes()).map_err(|error| format!("the endpoint sent no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_text_and_of_tool_calls_are_put_together() {
        let body = r#"
data: {"model":"m","choices":[{"delta":{"role":"assistant","content":"Hel"}}]}

data: {"choices":[{"delta":{"content":"lo","tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"total_tokens":3}}

data: [DONE]
"#;
        let collected = Collected::read(body.as_bytes()).unwrap();
        assert_eq!((collected.content.as_str(), collected.model.as_deref()), ("Hello", Some("m")));
        assert_eq!(collected.finish_reason.as_deref(), Some("stop"));
        assert_eq!(collected.tool_calls[&0], json!({ "id": "t", "name": "f", "arguments": "{}" }));
        assert_eq!(collected.usage, Some(json!({ "total_tokens": 3 })));
    }

    #[test]
    fn a_whole_answer_is_read_too() {
        let body = br#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        assert_eq!(Collected::read(body).unwrap().content, "hi");
    }

    #[test]
    fn half_an_answer_is_none() {
        assert!(Collected::read(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n").is_err());
        assert!(Collected::read(b"data: {\"error\":{\"message\":\"overloaded\"}}\n").is_err());
        assert!(Collected::read(b"<html>").is_err());
    }
}
