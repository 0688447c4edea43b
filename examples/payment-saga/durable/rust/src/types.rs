// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    pub confirm_within_ms: i64,
    pub order: String,
    pub shop: String,
}

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Begin(Begin),
    Confirm(Value),
    Outcome(Value),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "begin" => Ok(Self::Begin(typed(value)?)),
            "confirm" => Ok(Self::Confirm(typed(value)?)),
            "outcome" => Ok(Self::Outcome(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}
