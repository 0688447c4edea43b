// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Ask(String),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "ask" => Ok(Self::Ask(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}
