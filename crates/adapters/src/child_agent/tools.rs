//! The tools of an agent: effects, as its model sees them.

use crate::Params;
use mundi_model::{Value, limits};
use mundi_runtime::effects::invalid;
use mundi_store::protocol::Failure;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

pub(super) struct Tool {
    pub(super) name: String,
    /// The kind of the effect.
    pub(super) effect: String,
    description: String,
    /// A JSON Schema, for the model.
    parameters: Json,
    /// Of the effect: the model cannot change them.
    fixed: BTreeMap<String, Value>,
}

pub(super) fn read(tools: Option<&Value>) -> Result<Vec<Tool>, Failure> {
    let tools = match tools {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) if tools.len() <= limits::AGENT_TOOLS_MAX => tools,
        Some(_) => return Err(invalid(format!("`tools` is a list of at most {}", limits::AGENT_TOOLS_MAX))),
    };
    let tools = tools.iter().map(|tool| Tool::read(Params::of(tool)?)).collect::<Result<Vec<_>, Failure>>()?;
    let names: std::collections::BTreeSet<_> = tools.iter().map(|tool| &tool.name).collect();
    if names.len() < tools.len() {
        return Err(invalid("two tools have the same name"));
    }
    Ok(tools)
}

impl Tool {
    fn read(params: Params<'_>) -> Result<Self, Failure> {
        let parameters = match params.get("parameters") {
            None => json!({ "type": "object" }),
            Some(schema) => schema.to_json().map_err(|error| invalid(format!("`parameters`: {error}")))?,
        };
        let fixed = match params.get("params") {
            None => BTreeMap::new(),
            Some(Value::Map(fixed)) => fixed.clone(),
            Some(_) => return Err(invalid("`params` of a tool is a map")),
        };
        Ok(Self {
            name: params.text("name")?.to_owned(),
            effect: params.text("effect")?.to_owned(),
            description: params.text_or_none("description")?.unwrap_or_default().to_owned(),
            parameters,
            fixed,
        })
    }

    /// As the model is told of it.
    pub(super) fn declared(&self) -> Json {
        let Self { name, description, parameters, .. } = self;
        json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
    }

    /// The params of the effect: what the model says, under what the parent fixed.
    pub(super) fn params(&self, arguments: &str) -> Result<Value, String> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let said: Json =
            mundi_model::json::read(arguments.as_bytes()).map_err(|error| format!("the arguments: {error}"))?;
        let Value::Map(mut params) = Value::from(said) else { return Err("the arguments are no object".to_owned()) };
        params.extend(self.fixed.clone());
        Ok(Value::Map(params))
    }
}

/// The answer for the model: its bytes as text, within the bound.
pub(super) fn said(answer: &Value) -> String {
    let mut text = match readable(answer) {
        Json::String(text) => text,
        other => other.to_string(),
    };
    text.truncate(text.floor_char_boundary(limits::AGENT_ANSWER_BYTES_MAX));
    text
}

fn readable(value: &Value) -> Json {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Map(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), readable(value))).collect())
        }
        other => other.to_json().unwrap_or(Json::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(json: &Json) -> Result<Vec<Tool>, Failure> {
        read(Some(&Value::from(json!([json]))))
    }

    #[test]
    fn the_model_changes_nothing_that_the_parent_fixed() {
        let fetch = json!({ "name": "fetch", "effect": "http.request", "params": { "method": "GET" } });
        let fetch = tool(&fetch).unwrap().remove(0);
        let params = fetch.params(r#"{"url": "http://a/", "method": "DELETE"}"#).unwrap();
        assert_eq!(params.to_json().unwrap(), json!({ "url": "http://a/", "method": "GET" }));
        assert_eq!(fetch.params("").unwrap().to_json().unwrap(), json!({ "method": "GET" }));
        assert!(fetch.params("[]").is_err() && fetch.params("{").is_err());
    }

    #[test]
    fn tools_without_a_name_or_an_effect_and_two_of_one_name_are_refused() {
        assert!(tool(&json!({ "name": "x" })).is_err() && tool(&json!({ "effect": "x" })).is_err());
        let twice = json!([{ "name": "x", "effect": "a" }, { "name": "x", "effect": "b" }]);
        assert!(read(Some(&Value::from(twice))).is_err());
    }

    #[test]
    fn bytes_are_told_as_text_and_long_answers_are_cut() {
        let answer = Value::Map([("body".to_owned(), Value::Bytes(b"21 degrees".to_vec()))].into());
        assert_eq!(said(&answer), r#"{"body":"21 degrees"}"#);
        assert_eq!(said(&Value::Text("x".repeat(100_000))).len(), limits::AGENT_ANSWER_BYTES_MAX);
    }
}
