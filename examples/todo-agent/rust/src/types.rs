// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Add {
    pub id: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub id: String,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    pub notify: String,
    pub remind_ms: i64,
    pub service: String,
}

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Add(Add),
    Notice(Notice),
    Setup(Setup),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "add" => Ok(Self::Add(typed(value)?)),
            "notice" => Ok(Self::Notice(typed(value)?)),
            "setup" => Ok(Self::Setup(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}

/// Queries that the program answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Queries {
    Notices(Value),
    Todos(Value),
    Version(Value),
}

impl Queries {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "notices" => Ok(Self::Notices(typed(value)?)),
            "todos" => Ok(Self::Todos(typed(value)?)),
            "version" => Ok(Self::Version(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}
