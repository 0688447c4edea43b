//! Bytes as a value of their own.

use crate::Value;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected},
};
use std::ops::Deref;

/// The one key of an object that stands for bytes in a [`Value`]; beside it is a text in base 64.
pub const BYTES: &str = "$mundi.bytes";

/// A byte string: in params, receipts, cells and events. A `Vec<u8>` is a list of numbers instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// The bytes as a text, if they are UTF-8.
    pub fn text(&self) -> Result<&str, crate::Failure> {
        Ok(std::str::from_utf8(&self.0)?)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(rename = "$mundi.bytes")]
    base64: String,
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { base64: encode(&self.0) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { base64 } = Written::deserialize(deserializer)?;
        let refused = || Error::invalid_value(Unexpected::Str(&base64), &"bytes in base 64");
        decode(&base64).map(Self).ok_or_else(refused)
    }
}

/// The value that stands for bytes.
pub(crate) fn to_value(bytes: &[u8]) -> Value {
    Value::Object([(BYTES.to_owned(), encode(bytes).into())].into_iter().collect())
}

/// The bytes that a value stands for, if it does.
pub(crate) fn in_value(value: &Value) -> Option<Vec<u8>> {
    let entries = value.as_object().filter(|entries| entries.len() == 1)?;
    decode(entries.get(BYTES)?.as_str()?)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        Some(u32::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    for (index, chunk) in text.as_bytes().chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && index != text.len() / 4 - 1 {
            return None;
        }
        let mut group = 0;
        for byte in &chunk[..4 - padding] {
            group = group << 6 | digit(*byte)?;
        }
        group <<= 6 * padding;
        bytes.extend(&group.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor;

    #[test]
    fn bytes_survive_values_and_cbor() {
        for len in 0..20 {
            let bytes = Bytes((0..len).map(|n| 255 - 7 * n).collect());
            let encoded = cbor::to_vec(&vec![bytes.clone()]).unwrap();
            assert_eq!(encoded, [&[0x81, 0x40 | len][..], &bytes].concat());
            assert_eq!(cbor::from_slice::<Vec<Bytes>>(&encoded).unwrap(), [bytes]);
        }
    }

    #[test]
    fn what_is_no_base_64_is_no_bytes() {
        for bad in ["A", "A===", "AA=A", "=AAA", "AA==AAAA", "A*=="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
