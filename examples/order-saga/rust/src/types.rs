// Made by `mundi program build` from mundi.json. Changes here are lost.
#![allow(dead_code, non_snake_case, unused_imports)]

use mundi_sdk::{Bytes, Effect, Failure, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cancel {
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub cents: i64,
    pub order: String,
    pub quantity: i64,
    pub sku: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderQuery {
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrdersQuery {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaymentCharge {
    pub attempt: i64,
    pub cents: i64,
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaymentChargeReceipt {
    pub charge: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaymentRefund {
    pub charge: String,
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StockReserve {
    pub order: String,
    pub quantity: i64,
    pub sku: String,
}

/// Events that the program accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    Cancel(Cancel),
    Place(Place),
}

impl Events {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "cancel" => Ok(Self::Cancel(typed(value)?)),
            "place" => Ok(Self::Place(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}

/// Queries that the program answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Queries {
    Order(OrderQuery),
    Orders(OrdersQuery),
    Totals(Value),
}

impl Queries {
    pub fn read(name: &str, value: Value) -> Result<Self, Failure> {
        fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
            Ok(serde_json::from_value(value)?)
        }
        match name {
            "order" => Ok(Self::Order(typed(value)?)),
            "orders" => Ok(Self::Orders(typed(value)?)),
            "totals" => Ok(Self::Totals(typed(value)?)),
            other => Err(Failure::new(format!("`{other}` is not declared"))),
        }
    }
}

impl Effect for PaymentCharge {
    const KIND: &'static str = "payment.charge";
    type Receipt = PaymentChargeReceipt;
}

impl Effect for PaymentRefund {
    const KIND: &'static str = "payment.refund";
    type Receipt = Value;
}

impl Effect for StockReserve {
    const KIND: &'static str = "stock.reserve";
    type Receipt = Value;
}
