//! Labels: pairs of texts by which people find worlds.

use crate::{Code, Coded, cbor::text_map, limits, record::Operator};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// Why labels were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("`{0}` is no key of a label: 1 to {max} letters, digits and -_./", max = limits::LABEL_KEY_BYTES_MAX)]
    Key(String),
    #[error("the value of the label `{0}` has more than {max} bytes, or control characters", max = limits::LABEL_VALUE_BYTES_MAX)]
    Value(String),
    #[error("a world has at most {max} labels; it would have {0}", max = limits::WORLD_LABELS_MAX)]
    Full(usize),
}

impl Coded for LabelError {
    fn code(&self) -> Code {
        match self {
            Self::Key(_) | Self::Value(_) => Code::LabelInvalid,
            Self::Full(_) => Code::LabelsFull,
        }
    }
}

/// The labels of a world: valid keys and values, and no more than the bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(BTreeMap<String, String>);

impl<C> Encode<C> for Labels {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        text_map::encode(&self.0, e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for Labels {
    fn decode(d: &mut minicbor::Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        let pairs = text_map::decode(d, ctx)?;
        Self::new(pairs).map_err(|error| minicbor::decode::Error::message(error.to_string()))
    }
}

impl Labels {
    /// Checks keys, values and the number of them.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, LabelError> {
        let mut labels = BTreeMap::new();
        for (key, value) in pairs {
            check_label_key(&key)?;
            check_value(&key, &value)?;
            labels.insert(key, value);
        }
        match labels.len() {
            0..=limits::WORLD_LABELS_MAX => Ok(Self(labels)),
            len => Err(LabelError::Full(len)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a map, for documents.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.0.clone()
    }

    /// The labels after a change.
    pub fn after(&self, change: &LabelChange) -> Result<Self, LabelError> {
        let mut labels = self.0.clone();
        labels.retain(|key, _| !change.remove.contains(key));
        labels.extend(change.set.0.clone());
        Self::new(labels)
    }
}

/// A key as it may stand in a label.
pub fn check_label_key(key: &str) -> Result<(), LabelError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let is_key = !key.is_empty() && key.len() <= limits::LABEL_KEY_BYTES_MAX && key.bytes().all(fits);
    if is_key { Ok(()) } else { Err(LabelError::Key(key.to_owned())) }
}

fn check_value(key: &str, value: &str) -> Result<(), LabelError> {
    let is_value = value.len() <= limits::LABEL_VALUE_BYTES_MAX && !value.chars().any(char::is_control);
    if is_value { Ok(()) } else { Err(LabelError::Value(key.to_owned())) }
}

/// The payload of the control command `label`: the labels are changed when it is accepted, and it is journaled as any other command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct LabelChange {
    #[n(0)]
    pub set: Labels,
    /// Keys. One that is also set stays.
    #[n(1)]
    pub remove: Vec<String>,
    /// The operator that asked for it.
    #[n(2)]
    pub operator: Option<Operator>,
}

impl LabelChange {
    /// The name of the command.
    pub const COMMAND: &'static str = "label";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor;

    fn labels(pairs: &[(&str, &str)]) -> Result<Labels, LabelError> {
        Labels::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn keys_are_words_and_values_are_lines() {
        assert!(labels(&[("customer", "17"), ("team/region", "Zürich 4"), ("empty", "")]).is_ok());
        for bad in ["", "a b", "a=b", "ä", &"x".repeat(limits::LABEL_KEY_BYTES_MAX + 1)] {
            assert!(matches!(labels(&[(bad, "1")]), Err(LabelError::Key(_))), "{bad}");
        }
        for bad in ["a\nb", "a\0b", &"x".repeat(limits::LABEL_VALUE_BYTES_MAX + 1)] {
            assert!(matches!(labels(&[("k", bad)]), Err(LabelError::Value(_))), "{bad}");
        }
    }

    #[test]
    fn a_change_sets_removes_and_keeps_the_bound() {
        let before = labels(&[("a", "1"), ("b", "2")]).unwrap();
        let change =
            LabelChange { set: labels(&[("b", "3"), ("c", "4")]).unwrap(), remove: vec!["a".into()], operator: None };
        assert_eq!(before.after(&change), labels(&[("b", "3"), ("c", "4")]));
        let many: Vec<_> = (0..limits::WORLD_LABELS_MAX).map(|n| (format!("k{n}"), String::new())).collect();
        let full = Labels::new(many.clone()).unwrap();
        assert_eq!(full.after(&change), Err(LabelError::Full(limits::WORLD_LABELS_MAX + 2)));
        assert_eq!(Labels::new(many.into_iter().chain([("a".into(), String::new())])), Err(LabelError::Full(65)));
    }

    #[test]
    fn a_change_survives_its_encoding() {
        let change = LabelChange {
            set: labels(&[("bb", "3"), ("c", "4"), ("a", "")]).unwrap(),
            remove: vec!["x".into()],
            operator: None,
        };
        assert_eq!(cbor::decode::<LabelChange>(&cbor::encode(&change)), Ok(change));
    }
}
