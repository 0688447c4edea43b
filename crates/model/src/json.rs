//! Canonical JSON: UTF-8, keys sorted by their bytes, no white space, one form per number.
//!
//! Manifests and evidence are stored and hashed in this form. As with CBOR, a text is canonical when it
//! equals what is written for the value that it parses to; a repeated key fails that test too.
//!
//! JSON from outside is read by [`parse`] and [`read`], which refuse what two readers would understand in two ways: a key that is
//! there twice, and an integer that most readers round.

use crate::{Code, Coded, Value as AnyValue};
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
};

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not JSON: {0}")]
    Malformed(String),
    #[error("the JSON has another, canonical form: it differs from byte {offset}")]
    NotCanonical { offset: usize },
    #[error("the key `{0}` is twice in one object")]
    KeyRepeated(String),
    #[error("the integer {0} is beyond the 64 bits that JSON readers keep; send it as a text")]
    IntegerTooLarge(String),
}

impl Coded for JsonError {
    fn code(&self) -> Code {
        match self {
            Self::Malformed(_) => Code::JsonMalformed,
            Self::NotCanonical { .. } => Code::JsonNotCanonical,
            Self::KeyRepeated(_) => Code::JsonKeyRepeated,
            Self::IntegerTooLarge(_) => Code::IntegerTooLarge,
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

/// The value of a text from outside.
pub fn parse(bytes: &[u8]) -> Result<AnyValue, JsonError> {
    let seen = Seen::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict(&seen).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = value.map_err(|error| match seen.repeated.take() {
        Some(key) => JsonError::KeyRepeated(shortened(&key)),
        None => JsonError::Malformed(error.to_string()),
    })?;
    if seen.float.get() {
        check_integers(bytes)?;
    }
    Ok(value)
}

/// A text from outside as something of a known shape.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    parse(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| JsonError::Malformed(error.to_string()))
}

/// The findings of a reader.
#[derive(Default)]
struct Seen {
    repeated: RefCell<Option<String>>,
    /// An integer that is too large is read as one, too.
    float: Cell<bool>,
}

struct Strict<'a>(&'a Seen);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = AnyValue;

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<AnyValue, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<X>(self) -> Result<AnyValue, X> {
        Ok(AnyValue::Null)
    }

    fn visit_bool<X>(self, value: bool) -> Result<AnyValue, X> {
        Ok(AnyValue::Bool(value))
    }

    fn visit_u64<X>(self, value: u64) -> Result<AnyValue, X> {
        Ok(AnyValue::Integer(value.into()))
    }

    fn visit_i64<X>(self, value: i64) -> Result<AnyValue, X> {
        Ok(AnyValue::Integer(value.into()))
    }

    fn visit_f64<X>(self, value: f64) -> Result<AnyValue, X> {
        self.0.float.set(true);
        Ok(AnyValue::Float(value))
    }

    fn visit_str<X>(self, value: &str) -> Result<AnyValue, X> {
        Ok(AnyValue::Text(value.to_owned()))
    }

    fn visit_string<X>(self, value: String) -> Result<AnyValue, X> {
        Ok(AnyValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<AnyValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Strict(self.0))? {
            items.push(item);
        }
        Ok(AnyValue::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<AnyValue, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            if entries.contains_key(&key) {
                *self.0.repeated.borrow_mut() = Some(key);
                return Err(de::Error::custom("a key is there twice"));
            }
            entries.insert(key, access.next_value_seed(Strict(self.0))?);
        }
        Ok(AnyValue::Map(entries))
    }
}

/// Looks for integers of more than 64 bits in a text that is JSON.
fn check_integers(bytes: &[u8]) -> Result<(), JsonError> {
    let (mut at, mut in_text) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'-' | b'0'..=b'9' if !in_text => {
                let len = bytes[at..].iter().take_while(|byte| is_number(byte)).count();
                check_integer(&bytes[at..at + len])?;
                at += len - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

fn check_integer(digits: &[u8]) -> Result<(), JsonError> {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let fits = text.contains(['.', 'e', 'E']) || text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok();
    if fits { Ok(()) } else { Err(JsonError::IntegerTooLarge(shortened(text))) }
}

/// As much of a text as an error needs.
fn shortened(text: &str) -> String {
    const CHARS: usize = 64;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
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

    #[test]
    fn a_key_that_is_there_twice_is_refused_wherever_it_is() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":[],"a":2}}]"#, r#"{"a":1,"\u0061":2}"#] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().code(), Code::JsonKeyRepeated, "{text}");
            assert_eq!(read::<Value>(text.as_bytes()).unwrap_err().code(), Code::JsonKeyRepeated, "{text}");
        }
        assert!(parse(br#"[{"a":1},{"a":{"a":1}},"a","a"]"#).is_ok());
        let long = format!("{{\"{0}\":1,\"{0}\":2}}", "x".repeat(1_000));
        assert!(parse(long.as_bytes()).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused_and_a_float_is_not() {
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "[1.5,{\"a\":1000000000000000000000000000000}]",
            "[\"\\\"1.5\", 99999999999999999999]",
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().code(), Code::IntegerTooLarge, "{text}");
        }
        for text in
            ["18446744073709551615", "-9223372036854775808", "1e30", "-0", "[1.5,\"99999999999999999999\",1E+2,0.1]"]
        {
            assert!(parse(text.as_bytes()).is_ok(), "{text}");
        }
        assert_eq!(parse(b"1 2").unwrap_err().code(), Code::JsonMalformed);
        assert_eq!(parse(b"").unwrap_err().code(), Code::JsonMalformed);
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_what_serde_parses(key in ".*", other in ".*", number: f64, integer: i64, text in ".*") {
            let value = json!({key: [number, text, integer, null, true], "x": {other: integer}});
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap(), AnyValue::from(value.clone()));
            prop_assert_eq!(read::<Value>(value.to_string().as_bytes()).unwrap(), value);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[\\[\\]{}\":,0-9eE.+\\\\ a-]*") {
            let _refused = parse(text.as_bytes());
        }

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
