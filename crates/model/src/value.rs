//! A value of any shape: what an event, a parameter or a receipt carries.
//!
//! It is the common ground of JSON, which people and schemas speak, and canonical CBOR, which is stored
//! and hashed. Map keys are texts. CBOR has byte strings and JSON does not: in JSON they are refused
//! rather than guessed.

use crate::{Code, Coded, limits};
use minicbor::{
    Decode, Decoder, Encode, Encoder,
    data::{Int, Type},
    decode, encode,
};
use std::collections::BTreeMap;

/// Any value, in one form only: integers stay integers, maps stay sorted.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(Int),
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// Why a value has no JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoJsonForm {
    #[error("JSON has no byte strings; send the bytes as text, or put them in a blob")]
    Bytes,
    #[error("JSON has no number for a NaN or an infinity")]
    NotFinite,
    #[error("the integer {0} is beyond the 64 bits that JSON readers keep")]
    IntegerTooLarge(String),
}

impl Coded for NoJsonForm {
    fn code(&self) -> Code {
        Code::ValueNotJson
    }
}

/// The digits of base 64, in their order.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as base 64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { char::from(BASE64[value]) } else { '=' });
        }
    }
    text
}

impl Value {
    /// The value as a JSON Schema sees it: bytes are a text in base 64, as `contentEncoding` says.
    pub fn to_schema_json(&self) -> Result<serde_json::Value, NoJsonForm> {
        self.json(&|bytes| Ok(base64(bytes).into()))
    }

    /// The same value as JSON.
    pub fn to_json(&self) -> Result<serde_json::Value, NoJsonForm> {
        self.json(&|_| Err(NoJsonForm::Bytes))
    }

    fn json(
        &self,
        of_bytes: &dyn Fn(&[u8]) -> Result<serde_json::Value, NoJsonForm>,
    ) -> Result<serde_json::Value, NoJsonForm> {
        Ok(match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => return Err(NoJsonForm::IntegerTooLarge(value.to_string())),
            },
            Self::Float(value) => serde_json::Number::from_f64(*value).ok_or(NoJsonForm::NotFinite)?.into(),
            Self::Bytes(bytes) => of_bytes(bytes)?,
            Self::Text(value) => value.as_str().into(),
            Self::Array(items) => items.iter().map(|item| item.json(of_bytes)).collect::<Result<Vec<_>, _>>()?.into(),
            Self::Map(entries) => {
                let entry = |(key, value): (&String, &Self)| Ok((key.clone(), value.json(of_bytes)?));
                entries.iter().map(entry).collect::<Result<serde_json::Map<_, _>, _>>()?.into()
            }
        })
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Self::Integer(value.into()),
                (_, Some(value)) => Self::Integer(value.into()),
                _ => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(value) => Self::Text(value),
            serde_json::Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => {
                Self::Map(entries.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

impl<C> Encode<C> for Value {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        match self {
            Self::Null => e.null()?.ok(),
            Self::Bool(value) => e.bool(*value)?.ok(),
            Self::Integer(value) => e.int(*value)?.ok(),
            Self::Float(value) => encode_float(*value, e),
            Self::Bytes(value) => e.bytes(value)?.ok(),
            Self::Text(value) => e.str(value)?.ok(),
            Self::Array(items) => {
                e.array(items.len() as u64)?;
                items.iter().try_for_each(|item| item.encode(e, ctx))
            }
            Self::Map(entries) => {
                // Keys sort by their encoded bytes, and the encoded length comes first.
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_by_key(|(key, _)| (key.len(), *key));
                e.map(sorted.len() as u64)?;
                sorted.into_iter().try_for_each(|(key, value)| value.encode(e.str(key)?, ctx))
            }
        }
    }
}

/// The shortest of the three widths that keeps the value; one form for every NaN.
fn encode_float<W: encode::Write>(value: f64, e: &mut Encoder<W>) -> Result<(), encode::Error<W::Error>> {
    #[expect(clippy::cast_possible_truncation, reason = "whether it truncates is what is asked")]
    let single = value as f32;
    if value.is_nan() {
        e.f16(f32::NAN)?.ok()
    } else if f64::from(single) != value {
        e.f64(value)?.ok()
    } else if half::f16::from_f32(single).to_f32() == single {
        e.f16(single)?.ok()
    } else {
        e.f32(single)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Value {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        decode_value(d, limits::VALUE_DEPTH_MAX)
    }
}

fn decode_value(d: &mut Decoder<'_>, depth_left: u32) -> Result<Value, decode::Error> {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(decode::Error::message("nested too deeply").at(d.position()));
    };
    Ok(match d.datatype()? {
        Type::Null => {
            d.null()?;
            Value::Null
        }
        Type::Bool => Value::Bool(d.bool()?),
        Type::F16 => Value::Float(d.f16()?.into()),
        Type::F32 => Value::Float(d.f32()?.into()),
        Type::F64 => Value::Float(d.f64()?),
        Type::Bytes => Value::Bytes(d.bytes()?.to_vec()),
        Type::String => Value::Text(d.str()?.to_owned()),
        Type::Array => {
            let len = d.array()?.ok_or_else(|| decode::Error::message("an array of open length"))?;
            // Grown item by item: a length that the input does not back up reserves nothing.
            let mut items = Vec::new();
            for _ in 0..len {
                items.push(decode_value(d, depth_left)?);
            }
            Value::Array(items)
        }
        Type::Map => {
            let len = d.map()?.ok_or_else(|| decode::Error::message("a map of open length"))?;
            let mut entries = BTreeMap::new();
            for _ in 0..len {
                let key = d.str()?.to_owned();
                entries.insert(key, decode_value(d, depth_left)?);
            }
            Value::Map(entries)
        }
        _ => Value::Integer(d.int()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|value| Value::Integer(value.into())),
            any::<u64>().prop_map(|value| Value::Integer(value.into())),
            any::<f64>().prop_map(Value::Float),
            any::<f32>().prop_map(|value| Value::Float(value.into())),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            any::<String>().prop_map(Value::Text),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..8).prop_map(Value::Map),
            ]
        })
    }

    #[test]
    fn the_vectors_of_the_standard_hold() {
        // RFC 8949, appendix A.
        let float = |value: f64| cbor::encode(&Value::Float(value));
        assert_eq!(float(1.5), [0xf9, 0x3e, 0x00]);
        assert_eq!(float(-0.0), [0xf9, 0x80, 0x00]);
        assert_eq!(float(65504.0), [0xf9, 0x7b, 0xff]);
        assert_eq!(float(5.960_464_477_539_063e-8), [0xf9, 0x00, 0x01]);
        assert_eq!(float(100_000.0), [0xfa, 0x47, 0xc3, 0x50, 0x00]);
        assert_eq!(float(1.1), [0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a]);
        assert_eq!(float(f64::INFINITY), [0xf9, 0x7c, 0x00]);
        assert_eq!(float(-f64::NAN), [0xf9, 0x7e, 0x00]);
        let map = Value::from(serde_json::json!({"aa": 1, "b": -1, "a": [true, null]}));
        assert_eq!(cbor::encode(&map), b"\xa3\x61a\x82\xf5\xf6\x61b\x20\x62aa\x01");
    }

    #[test]
    fn schemas_see_bytes_as_base_64_and_json_has_none() {
        // RFC 4648, section 10.
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foobar", "Zm9vYmFy")]
        {
            let value = Value::Array(vec![Value::Bytes(bytes.to_vec())]);
            assert_eq!(value.to_schema_json(), Ok(serde_json::json!([text])));
            assert_eq!(value.to_json(), Err(NoJsonForm::Bytes));
        }
    }

    #[test]
    fn unsorted_and_repeated_keys_wide_floats_and_tags_are_refused() {
        for bad in [&b"\xa2\x61b\x01\x61a\x01"[..], b"\xa2\x61a\x01\x61a\x01", b"\xfa\x3f\xc0\x00\x00", b"\xc1\x00"] {
            assert!(cbor::decode::<Value>(bad).is_err(), "{bad:x?}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| [vec![0x81; depth], vec![0x00]].concat();
        assert!(cbor::decode::<Value>(&nested(limits::VALUE_DEPTH_MAX as usize - 1)).is_ok());
        assert!(cbor::decode::<Value>(&nested(limits::VALUE_DEPTH_MAX as usize)).is_err());
        assert!(cbor::decode::<Value>(&nested(1_000_000)).is_err());
    }

    #[test]
    fn a_huge_claimed_length_reserves_nothing() {
        assert!(cbor::decode::<Value>(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
        assert!(cbor::decode::<Value>(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }

    proptest! {
        #[test]
        fn values_survive_cbor(value in values()) {
            let bytes = cbor::encode(&value);
            let back: Value = cbor::decode(&bytes).unwrap();
            prop_assert_eq!(cbor::encode(&back), bytes);
        }

        #[test]
        fn values_with_a_json_form_survive_it(value in values()) {
            if let Ok(json) = value.to_json() {
                prop_assert_eq!(Value::from(json), value);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok(value) = cbor::decode::<Value>(&bytes) {
                prop_assert_eq!(cbor::encode(&value), bytes);
            }
        }
    }
}
