//! The parameters of the intent that spawns a child.

use super::{ACCOUNTING_MODE, Lane, Spend};
use crate::{Code, Coded, Value, cbor, limits};
use std::collections::BTreeMap;

/// A child as its parent asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildSpec {
    pub kind: String,
    /// Parameters of the kind.
    pub params: Value,
    pub budget: Spend,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecInvalid {
    #[error("the parameters of a child are not valid: {0}")]
    Shape(String),
    #[error("the accounting mode `{0}` is not `{ACCOUNTING_MODE}`")]
    Accounting(String),
}

impl Coded for SpecInvalid {
    fn code(&self) -> Code {
        match self {
            Self::Shape(_) => Code::EffectParamsInvalid,
            Self::Accounting(_) => Code::UrmDispatchAccountingModeInvalid,
        }
    }
}

impl ChildSpec {
    /// Reads the canonical CBOR of an intent: a map with `kind`, and perhaps `params`, `budget` and `accounting`.
    pub fn read(params: &[u8]) -> Result<Self, SpecInvalid> {
        let shape = |reason: &str| SpecInvalid::Shape(reason.to_owned());
        let value: Value = cbor::decode(params).map_err(|error| SpecInvalid::Shape(error.to_string()))?;
        let Value::Map(mut fields) = value else { return Err(shape("they are not a map")) };
        let kind = match fields.remove("kind") {
            Some(Value::Text(kind)) if !kind.is_empty() && kind.len() <= limits::NAME_BYTES_MAX => kind,
            _ => return Err(shape("`kind` is a short text")),
        };
        match fields.remove("accounting") {
            None => {}
            Some(Value::Text(mode)) if mode == ACCOUNTING_MODE => {}
            Some(Value::Text(mode)) => return Err(SpecInvalid::Accounting(mode)),
            Some(_) => return Err(shape("`accounting` is a text")),
        }
        let budget = match fields.remove("budget") {
            None | Some(Value::Null) => Spend::default(),
            Some(Value::Map(lanes)) => read_budget(&lanes)?,
            Some(_) => return Err(shape("`budget` is a map of lanes")),
        };
        let params = fields.remove("params").unwrap_or(Value::Null);
        match fields.keys().next() {
            Some(unknown) => Err(SpecInvalid::Shape(format!("`{unknown}` is not a field"))),
            None => Ok(Self { kind, params, budget }),
        }
    }
}

fn read_budget(lanes: &BTreeMap<String, Value>) -> Result<Spend, SpecInvalid> {
    let mut budget = Spend::default();
    for (name, amount) in lanes {
        let lane = Lane::from_name(name).ok_or_else(|| SpecInvalid::Shape(format!("`{name}` is not a budget lane")))?;
        let amount = match amount {
            Value::Integer(amount) => u64::try_from(i128::from(*amount)).ok(),
            _ => None,
        };
        let amount = amount.ok_or_else(|| SpecInvalid::Shape(format!("`{name}` is a whole number, not negative")))?;
        budget.set(lane, Some(amount));
    }
    Ok(budget)
}

/// The parameters of the intent that asks for a child.
pub fn spec_params(kind: &str, params: &Value, budget: &Spend) -> Vec<u8> {
    let mut fields = BTreeMap::from([("kind".to_owned(), Value::Text(kind.to_owned()))]);
    if *params != Value::Null {
        fields.insert("params".to_owned(), params.clone());
    }
    let lanes: BTreeMap<_, _> = Lane::ALL
        .into_iter()
        .filter_map(|lane| budget.get(lane).map(|amount| (lane.as_str().to_owned(), Value::Integer(amount.into()))))
        .collect();
    if !lanes.is_empty() {
        fields.insert("budget".to_owned(), Value::Map(lanes));
    }
    cbor::encode(&Value::Map(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(fields: &[(&str, Value)]) -> Vec<u8> {
        cbor::encode(&Value::Map(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()))
    }

    #[test]
    fn what_is_written_is_read() {
        let budget = Spend::default().with(Lane::Tokens, 0).with(Lane::SolverCalls, 9);
        let written = spec_params("process", &Value::Text("x".into()), &budget);
        let read = ChildSpec::read(&written).unwrap();
        assert_eq!(read, ChildSpec { kind: "process".into(), params: Value::Text("x".into()), budget });
        assert_eq!(ChildSpec::read(&spec_params("a", &Value::Null, &Spend::default())).unwrap().params, Value::Null);
    }

    #[test]
    fn another_accounting_mode_has_a_code_of_its_own() {
        let kind = ("kind", Value::Text("agent".into()));
        let with = |mode: &str| ChildSpec::read(&params(&[kind.clone(), ("accounting", Value::Text(mode.into()))]));
        assert!(with(ACCOUNTING_MODE).is_ok());
        assert_eq!(with("reservation_v1").unwrap_err().code(), Code::UrmDispatchAccountingModeInvalid);
    }

    #[test]
    fn what_is_not_a_child_is_refused() {
        let kind = ("kind", Value::Text("agent".into()));
        let bad = [
            params(&[]),
            params(&[("kind", Value::Null)]),
            params(&[kind.clone(), ("more", Value::Null)]),
            params(&[kind.clone(), ("budget", Value::Map([("money".into(), Value::Integer(1.into()))].into()))]),
            params(&[kind, ("budget", Value::Map([("tokens".into(), Value::Text("1".into()))].into()))]),
            vec![0xff],
        ];
        for bad in bad {
            assert_eq!(ChildSpec::read(&bad).unwrap_err().code(), Code::EffectParamsInvalid);
        }
    }
}
