// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    pub n: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hand {
    pub n: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub note: String,
    pub step: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkReceipt {
    pub by: String,
    pub worth: i64,
}

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Chain(Chain),
    Hand(Hand),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "chain" => Ok(Self::Chain(typed(value)?)),
            "hand" => Ok(Self::Hand(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}

impl Effect for Work {
    const KIND: &'static str = "work";
    type Receipt = WorkReceipt;
}
