//! Canonical JSON: UTF-8, keys sorted by their bytes, no white space, one form per number.
//!
//! Manifests and evidence are stored and hashed in this form. As with CBOR, a text is canonical when it
//! equals what is written for the value that it parses to; a repeated key fails that test too.

use crate::{Code, Coded};
use serde_json::Value;

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not JSON: {0}")]
    Malformed(String),
    #[error("the JSON has another, canonical form: it differs from byte {offset}")]
    NotCanonical { offset: usize },
}

impl Coded for JsonError {
    fn code(&self) -> Code {
        match self {
            Self::Malformed(_) => Code::JsonMalformed,
            Self::NotCanonical { .. } => Code::JsonNotCanonical,
        }
    }
}

/// The canonical text of a value.
pub fn to_canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// The value of a canonical text.
pub fn from_canonical(bytes: &[u8]) -> Result<Value, JsonError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| JsonError::Malformed(error.to_string()))?;
    let canonical = to_canonical(&value);
    if canonical.as_bytes() == bytes {
        return Ok(value);
    }
    let offset = canonical.bytes().zip(bytes).take_while(|(a, b)| a == *b).count();
    Err(JsonError::NotCanonical { offset })
}

/// Sorts by itself: whether `serde_json` keeps its maps sorted depends on a feature that any
/// dependency may switch.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(&Value::String(key.clone()), text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_and_nothing_is_spaced() {
        let value = json!({"b": [1, 2.5, "x\n"], "a": {"é": null, "e": true}});
        assert_eq!(to_canonical(&value), r#"{"a":{"e":true,"é":null},"b":[1,2.5,"x\n"]}"#);
    }

    #[test]
    fn other_forms_of_the_same_value_are_refused() {
        for text in ["{\"a\": 1}", "{\"b\":1,\"a\":1}", "{\"a\":1,\"a\":1}", "[1e0]", "\"\\u0061\"", "1 "] {
            let refused = from_canonical(text.as_bytes()).unwrap_err();
            assert_eq!(refused.code(), Code::JsonNotCanonical, "{text}");
        }
        assert_eq!(from_canonical(b"{").unwrap_err().code(), Code::JsonMalformed);
        assert_eq!(from_canonical(b"\"\xff\"").unwrap_err().code(), Code::JsonMalformed);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_their_own_canonical_form(bytes: Vec<u8>) {
            if let Ok(value) = from_canonical(&bytes) {
                prop_assert_eq!(to_canonical(&value).into_bytes(), bytes);
            }
        }

        #[test]
        fn canonical_text_is_canonical(key in ".*", number: f64, text in ".*") {
            let value = json!({key: [number, text]});
            prop_assert_eq!(from_canonical(to_canonical(&value).as_bytes()).unwrap(), value);
        }
    }
}
