//! Scripted answers: what a sandbox gets instead of answers of external services.
//!
//! One object in the content store, named by the first record of the sandbox. The first rule that fits an effect answers it, as
//! often as it fits: so an answer depends on what is asked and on its number since the fork, and on nothing that a restart
//! could lose.

use crate::{Code, Coded, Value, cbor, limits, record::ReceiptStatus};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// The form that this version writes.
const FORMAT: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Answers {
    #[n(0)]
    format: u8,
    #[n(1)]
    rules: Vec<ScriptedAnswer>,
}

/// An answer, and to what it is one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ScriptedAnswer {
    /// The kind of the effect.
    #[n(0)]
    pub kind: String,
    /// Only to the effect of this number since the fork, all kinds counted, timers left out; the first is 1.
    #[n(1)]
    pub nth: Option<u64>,
    /// Only to parameters that have these members, with these values: a map in CBOR.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub params: Option<Vec<u8>>,
    #[n(3)]
    pub status: ReceiptStatus,
    /// The receipt's payload, as the kind's adapter would give it.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    pub payload: Vec<u8>,
}

/// Why answers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswersError {
    #[error("there are {count} answers; at most {max} are allowed")]
    TooMany { count: usize, max: usize },
    #[error("the answers have {len} bytes, encoded; at most {max} are allowed")]
    TooLarge { len: usize, max: usize },
    #[error("answer {index}: {why}")]
    Invalid { index: usize, why: String },
    #[error("they are not answers: {0}")]
    Malformed(String),
}

impl Coded for AnswersError {
    fn code(&self) -> Code {
        Code::AnswersInvalid
    }
}

impl Answers {
    pub fn new(rules: Vec<ScriptedAnswer>) -> Result<Self, AnswersError> {
        let answers = Self { format: FORMAT, rules };
        answers.check()?;
        Ok(answers)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswersError> {
        let answers: Self = cbor::decode(bytes).map_err(|error| AnswersError::Malformed(error.to_string()))?;
        answers.check()?;
        Ok(answers)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        cbor::encode(self)
    }

    fn check(&self) -> Result<(), AnswersError> {
        if self.format != FORMAT {
            return Err(AnswersError::Malformed("they were written in another format".to_owned()));
        }
        if self.rules.len() > limits::ANSWERS_MAX {
            return Err(AnswersError::TooMany { count: self.rules.len(), max: limits::ANSWERS_MAX });
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|why| AnswersError::Invalid { index, why })?;
        }
        match cbor::encode(self).len() {
            len if len > limits::ANSWERS_BYTES_MAX => {
                Err(AnswersError::TooLarge { len, max: limits::ANSWERS_BYTES_MAX })
            }
            _ => Ok(()),
        }
    }

    /// Whether a rule looks at parameters at all: they may have to be fetched.
    pub fn reads_params(&self, kind: &str) -> bool {
        self.rules.iter().any(|rule| rule.kind == kind && rule.params.is_some())
    }

    /// The first answer that fits the effect of this number, counted from 1.
    pub fn find(&self, nth: u64, kind: &str, params: &[u8]) -> Option<&ScriptedAnswer> {
        let asked = || cbor::decode::<Value>(params).ok();
        let fits = |rule: &&ScriptedAnswer| {
            rule.kind == kind
                && rule.nth.is_none_or(|wanted| wanted == nth)
                && rule.members().is_none_or(|wanted| asked().is_some_and(|asked| has(&asked, &wanted)))
        };
        self.rules.iter().find(fits)
    }
}

impl ScriptedAnswer {
    fn check(&self) -> Result<(), String> {
        let max = limits::PAYLOAD_INLINE_BYTES_MAX;
        if self.kind.is_empty() || self.kind.len() > limits::NAME_BYTES_MAX {
            return Err(format!("the kind has {} bytes; it has 1 to {}", self.kind.len(), limits::NAME_BYTES_MAX));
        }
        if self.nth == Some(0) {
            return Err("the first effect has the number 1".to_owned());
        }
        if self.payload.len() > max {
            return Err(format!("the payload has {} bytes; at most {max} are allowed", self.payload.len()));
        }
        match &self.params {
            Some(params) if !matches!(cbor::decode::<Value>(params), Ok(Value::Map(_))) => {
                Err("`params` is not a map".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn members(&self) -> Option<BTreeMap<String, Value>> {
        match cbor::decode::<Value>(self.params.as_ref()?) {
            Ok(Value::Map(members)) => Some(members),
            _ => None,
        }
    }
}

/// Whether a value is a map with all these members.
fn has(value: &Value, wanted: &BTreeMap<String, Value>) -> bool {
    match value {
        Value::Map(found) => wanted.iter().all(|(name, value)| found.get(name) == Some(value)),
        _ => wanted.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(members: &[(&str, &str)]) -> Vec<u8> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::Text((*value).to_owned()));
        cbor::encode(&Value::Map(members.iter().map(text).collect()))
    }

    fn rule(kind: &str, nth: Option<u64>, params: Option<Vec<u8>>, payload: &[u8]) -> ScriptedAnswer {
        ScriptedAnswer { kind: kind.to_owned(), nth, params, status: ReceiptStatus::Ok, payload: payload.to_vec() }
    }

    #[test]
    fn the_first_rule_that_fits_answers() {
        let rules = vec![
            rule("http", Some(2), None, b"second"),
            rule("http", None, Some(map(&[("url", "a")])), b"a"),
            rule("http", None, None, b"any"),
        ];
        let answers = Answers::from_bytes(&Answers::new(rules).unwrap().to_bytes()).unwrap();
        let found = |nth, kind, params: &[(&str, &str)]| {
            answers.find(nth, kind, &map(params)).map(|rule| String::from_utf8(rule.payload.clone()).unwrap())
        };
        assert_eq!(found(1, "http", &[("url", "a"), ("method", "GET")]).as_deref(), Some("a"));
        assert_eq!(found(2, "http", &[("url", "a")]).as_deref(), Some("second"));
        assert_eq!(found(3, "http", &[("url", "b")]).as_deref(), Some("any"));
        assert_eq!(found(1, "mail", &[]), None);
        assert_eq!(answers.find(3, "http", b"no cbor").unwrap().payload, b"any");
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let refused = |rule| Answers::new(vec![rule]).unwrap_err();
        for bad in [
            rule("", None, None, b""),
            rule("http", Some(0), None, b""),
            rule("http", None, Some(cbor::encode(&Value::Null)), b""),
            rule("http", None, None, &vec![0; limits::PAYLOAD_INLINE_BYTES_MAX + 1]),
        ] {
            assert!(matches!(refused(bad), AnswersError::Invalid { index: 0, .. }));
        }
        let many = vec![rule("http", None, None, b""); limits::ANSWERS_MAX + 1];
        assert!(matches!(Answers::new(many), Err(AnswersError::TooMany { .. })));
        let large = vec![rule("http", None, None, &vec![0; limits::PAYLOAD_INLINE_BYTES_MAX]); 65];
        assert!(matches!(Answers::new(large), Err(AnswersError::TooLarge { .. })));
        assert!(matches!(Answers::from_bytes(b"x"), Err(AnswersError::Malformed(_))));
    }
}
