// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Ask(Ask),
    Note(String),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "ask" => Ok(Self::Ask(typed(value)?)),
            "note" => Ok(Self::Note(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}

/// Queries that the program answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Queries {
    Note(Value),
}

impl Queries {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "note" => Ok(Self::Note(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}
