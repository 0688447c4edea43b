//! Reading the parameters of an effect, field by field, with errors that name the field.

use mundi_model::Value;
use mundi_runtime::effects::invalid;
use mundi_store::protocol::Failure;
use std::collections::BTreeMap;

/// The fields of a map.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a>(&'a BTreeMap<String, Value>);

impl<'a> Params<'a> {
    pub fn of(value: &'a Value) -> Result<Self, Failure> {
        match value {
            Value::Map(fields) => Ok(Self(fields)),
            _ => Err(invalid("the parameters are not a map")),
        }
    }

    /// `None` if it is absent or null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| **value != Value::Null)
    }

    pub fn text(&self, name: &str) -> Result<&'a str, Failure> {
        self.text_or_none(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")))
    }

    pub fn text_or_none(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(format!("`{name}` is not a text"))),
        }
    }

    /// A whole number that is not negative.
    pub fn unsigned_or_none(&self, name: &str) -> Result<Option<u64>, Failure> {
        let number = |value: &Value| match value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let not_a_number = || invalid(format!("`{name}` is not a whole number from 0 on"));
        self.get(name).map(|value| number(value).ok_or_else(not_a_number)).transpose()
    }

    /// Bytes, or a text as its UTF-8.
    pub fn bytes_or_none(&self, name: &str) -> Result<Option<&'a [u8]>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::Text(text)) => Ok(Some(text.as_bytes())),
            Some(_) => Err(invalid(format!("`{name}` is neither bytes nor a text"))),
        }
    }

    /// A map of texts, such as headers; empty if absent.
    pub fn texts(&self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        let not_texts = || invalid(format!("`{name}` is not a map of texts"));
        match self.get(name) {
            None => Ok(BTreeMap::new()),
            Some(Value::Map(fields)) => {
                let entry = |(key, value): (&String, &Value)| match value {
                    Value::Text(text) => Ok((key.clone(), text.clone())),
                    _ => Err(not_texts()),
                };
                fields.iter().map(entry).collect()
            }
            Some(_) => Err(not_texts()),
        }
    }

    /// A list of texts; empty if absent.
    pub fn list(&self, name: &str) -> Result<Vec<String>, Failure> {
        let not_texts = || invalid(format!("`{name}` is not a list of texts"));
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let item = |value: &Value| match value {
                    Value::Text(text) => Ok(text.clone()),
                    _ => Err(not_texts()),
                };
                items.iter().map(item).collect()
            }
            Some(_) => Err(not_texts()),
        }
    }
}

/// A map of the answer.
pub(crate) fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Code;
    use mundi_store::protocol::Repeat;

    #[test]
    fn an_error_names_the_field() {
        let value = map([("a", text("x")), ("b", Value::Bool(true)), ("n", Value::Null)]);
        let params = Params::of(&value).unwrap();
        assert_eq!(params.text("a").unwrap(), "x");
        assert_eq!(params.text_or_none("n").unwrap(), None);
        for (failure, field) in [(params.text("b").unwrap_err(), "`b`"), (params.text("c").unwrap_err(), "`c`")] {
            assert_eq!((failure.code, failure.repeat), (Code::EffectParamsInvalid, Repeat::Never));
            assert!(failure.reason.contains(field), "{}", failure.reason);
        }
        assert!(Params::of(&Value::Null).is_err());
    }
}
