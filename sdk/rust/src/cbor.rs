//! Canonical CBOR (RFC 8949, section 4.2.1) of JSON values and bytes: what cells, payloads and params are made of.
//!
//! One value has one form: the shortest heads, definite lengths, keys sorted by length and then by bytes, the shortest
//! float that keeps the value. So two programs that keep the same values keep the same bytes.
//!
//! A [`Value`] has no bytes; in one they are an object with the one key [`BYTES`], which [`Bytes`](crate::Bytes)
//! reads and writes.

use crate::bytes::{self, BYTES};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Deep enough for any data made by people.
const DEPTH_MAX: u32 = 64;

/// Why bytes are not a value, or a value has no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CborError(String);

impl fmt::Display for CborError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CborError {}

impl From<serde_json::Error> for CborError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

pub fn to_vec(value: &impl Serialize) -> Result<Vec<u8>, CborError> {
    Ok(encode(&serde_json::to_value(value)?))
}

pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CborError> {
    Ok(serde_json::from_value(decode(bytes)?)?)
}

pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(value, &mut bytes);
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<Value, CborError> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(DEPTH_MAX)?;
    if reader.at == bytes.len() { Ok(value) } else { Err(CborError("bytes follow the value".to_owned())) }
}

fn head(major: u8, argument: u64, bytes: &mut Vec<u8>) {
    let major = major << 5;
    let long = argument.to_be_bytes();
    match argument {
        0..24 => bytes.push(major | long[7]),
        24..0x100 => bytes.extend([major | 24, long[7]]),
        0x100..0x1_0000 => bytes.extend([&[major | 25], &long[6..]].concat()),
        0x1_0000..0x1_0000_0000 => bytes.extend([&[major | 26], &long[4..]].concat()),
        _ => bytes.extend([&[major | 27], &long[..]].concat()),
    }
}

fn write(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.push(0xf6),
        Value::Bool(value) => bytes.push(if *value { 0xf5 } else { 0xf4 }),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => head(0, value, bytes),
            (_, Some(value)) => head(1, !value.cast_unsigned(), bytes),
            _ => float(number.as_f64().unwrap_or(f64::NAN), bytes),
        },
        Value::String(text) => {
            head(3, text.len() as u64, bytes);
            bytes.extend(text.as_bytes());
        }
        Value::Array(items) => {
            head(4, items.len() as u64, bytes);
            items.iter().for_each(|item| write(item, bytes));
        }
        Value::Object(entries) => {
            if let Some(found) = bytes::in_value(value) {
                head(2, found.len() as u64, bytes);
                return bytes.extend(found);
            }
            head(5, entries.len() as u64, bytes);
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|(key, _)| (key.len(), *key));
            for (key, value) in sorted {
                head(3, key.len() as u64, bytes);
                bytes.extend(key.as_bytes());
                write(value, bytes);
            }
        }
    }
}

fn float(value: f64, bytes: &mut Vec<u8>) {
    let single = value as f32;
    if f64::from(single) != value {
        bytes.push(0xfb);
        bytes.extend(value.to_be_bytes());
    } else if let Some(half) = half(single) {
        bytes.push(0xf9);
        bytes.extend(half.to_be_bytes());
    } else {
        bytes.push(0xfa);
        bytes.extend(single.to_be_bytes());
    }
}

/// The sixteen bits of a finite number that has so few.
fn half(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32 - 127, bits & 0x007f_ffff);
    let half = match exponent {
        -127 if fraction == 0 => sign,
        -14..=15 if fraction & 0x1fff == 0 => sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16,
        -24..=-15 => {
            // Subnormal: the leading one becomes visible, and what is shifted out must be zero.
            let (shift, visible) = ((-exponent - 1) as u32, fraction | 0x0080_0000);
            if visible & ((1 << shift) - 1) != 0 {
                return None;
            }
            sign | (visible >> shift) as u16
        }
        _ => return None,
    };
    Some(half)
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: u64) -> Result<&'b [u8], CborError> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| CborError("the value ends too early".to_owned()))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn number(&mut self, bytes: u64) -> Result<u64, CborError> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn head(&mut self) -> Result<(u8, u8, u64), CborError> {
        let first = self.take(1)?[0];
        let (major, short) = (first >> 5, first & 31);
        let argument = match short {
            0..24 => u64::from(short),
            24..28 => self.number(1 << (short - 24))?,
            _ => return Err(CborError("a length that is open".to_owned())),
        };
        Ok((major, short, argument))
    }

    fn text(&mut self, len: u64) -> Result<String, CborError> {
        String::from_utf8(self.take(len)?.to_vec()).map_err(|error| CborError(error.to_string()))
    }

    fn value(&mut self, depth_left: u32) -> Result<Value, CborError> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(CborError("nested too deeply".to_owned()));
        };
        let (major, short, argument) = self.head()?;
        Ok(match major {
            0 => argument.into(),
            1 => match i64::try_from(argument) {
                Ok(argument) => (-1 - argument).into(),
                Err(_) => return Err(CborError("an integer below 64 bits".to_owned())),
            },
            2 => bytes::to_value(self.take(argument)?),
            3 => self.text(argument)?.into(),
            4 => {
                // Grown item by item: a length that the bytes do not back up reserves nothing.
                let mut items = Vec::new();
                for _ in 0..argument {
                    items.push(self.value(depth_left)?);
                }
                items.into()
            }
            5 => {
                let mut entries = Map::new();
                for _ in 0..argument {
                    let (major, _, len) = self.head()?;
                    if major != 3 {
                        return Err(CborError("a key that is no text".to_owned()));
                    }
                    let key = self.text(len)?;
                    if key == BYTES {
                        return Err(CborError(format!("`{BYTES}` is no key of a map")));
                    }
                    entries.insert(key, self.value(depth_left)?);
                }
                entries.into()
            }
            7 => simple(short, argument)?,
            _ => return Err(CborError("tags have no JSON form".to_owned())),
        })
    }
}

fn simple(short: u8, argument: u64) -> Result<Value, CborError> {
    let number = match (short, argument) {
        (20, _) => return Ok(false.into()),
        (21, _) => return Ok(true.into()),
        (22, _) => return Ok(Value::Null),
        (25, half) => from_half(half as u16),
        (26, single) => f64::from(f32::from_bits(single as u32)),
        (27, double) => f64::from_bits(double),
        _ => return Err(CborError("a value without a JSON form".to_owned())),
    };
    Number::from_f64(number).map(Value::Number).ok_or_else(|| CborError("a number that is none".to_owned()))
}

fn from_half(half: u16) -> f64 {
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f64::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2f64.powi(exponent - 25),
    };
    if half & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_vectors_of_the_standard_hold() {
        // RFC 8949, appendix A.
        for (value, bytes) in [
            (json!(0), &b"\x00"[..]),
            (json!(23), b"\x17"),
            (json!(24), b"\x18\x18"),
            (json!(1000), b"\x19\x03\xe8"),
            (json!(1_000_000), b"\x1a\x00\x0f\x42\x40"),
            (json!(u64::MAX), b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff"),
            (json!(-1), b"\x20"),
            (json!(-1000), b"\x39\x03\xe7"),
            (json!(0.0), b"\xf9\x00\x00"),
            (json!(-0.0), b"\xf9\x80\x00"),
            (json!(1.0), b"\xf9\x3c\x00"),
            (json!(1.5), b"\xf9\x3e\x00"),
            (json!(65504.0), b"\xf9\x7b\xff"),
            (json!(5.960_464_477_539_063e-8), b"\xf9\x00\x01"),
            (json!(6.103_515_625e-5), b"\xf9\x04\x00"),
            (json!(100_000.0), b"\xfa\x47\xc3\x50\x00"),
            (json!(1.1), b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
            (json!("ü"), b"\x62\xc3\xbc"),
            (json!({"aa": 1, "b": -1, "a": [true, null]}), b"\xa3\x61a\x82\xf5\xf6\x61b\x20\x62aa\x01"),
        ] {
            assert_eq!(encode(&value), bytes, "{value}");
            assert_eq!(decode(bytes).unwrap(), value);
        }
    }

    #[test]
    fn every_half_survives() {
        for half in 0..=u16::MAX {
            let number = from_half(half);
            if number.is_finite() {
                assert_eq!(encode(&json!(number)), [[0xf9].as_slice(), &half.to_be_bytes()].concat());
            }
        }
    }

    #[test]
    fn broken_bytes_are_refused() {
        for bad in
            [&b""[..], b"\x18", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", b"\x61\xff", b"\x00\x00", b"\xa1\x01\x01"]
        {
            assert!(decode(bad).is_err(), "{bad:x?}");
        }
        assert!(decode(&[vec![0x81; 100_000], vec![0]].concat()).is_err());
        let forged = [&b"\xa1\x6c"[..], BYTES.as_bytes(), b"\x60"].concat();
        assert!(decode(&forged).is_err(), "a map that claims to be bytes");
    }
}
