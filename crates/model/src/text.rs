//! The text forms of ids: a prefix that says what it is, then digits that sort as the bytes do.

use crate::{Code, Coded};

/// Why a text is not the id it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}: expected {expected}")]
pub struct ParseIdError {
    what: &'static str,
    expected: &'static str,
    text: String,
}

impl ParseIdError {
    /// The text is quoted in full up to a length that no id reaches, so that an error stays readable.
    pub fn new(what: &'static str, expected: &'static str, text: &str) -> Self {
        Self { what, expected, text: text.chars().take(80).collect() }
    }
}

impl Coded for ParseIdError {
    fn code(&self) -> Code {
        Code::IdInvalid
    }
}

/// Crockford's alphabet in lower case: no `i`, `l`, `o`, `u`, and its order is the order of the digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The value of each byte as a digit.
const VALUES: [u8; 256] = {
    let (mut values, mut digit) = ([NO_DIGIT; 256], 0);
    while digit < ALPHABET.len() {
        #[expect(clippy::cast_possible_truncation, reason = "there are 32 of them")]
        let value = digit as u8;
        values[ALPHABET[digit] as usize] = value;
        digit += 1;
    }
    values
};
const NO_DIGIT: u8 = u8::MAX;

/// Digits of a 128-bit number in base 32: 26, the first of which carries three bits.
pub(crate) const BASE32_128_LEN: usize = 26;

pub(crate) fn base32_128(number: u128) -> String {
    let digit = |index: usize| {
        let shift = 5 * (BASE32_128_LEN - 1 - index);
        char::from(ALPHABET[(number >> shift & 31) as usize])
    };
    (0..BASE32_128_LEN).map(digit).collect()
}

/// The inverse of [`base32_128`]; only the form that it writes is accepted.
pub(crate) fn parse_base32_128(text: &str) -> Option<u128> {
    if text.len() != BASE32_128_LEN {
        return None;
    }
    let mut number = 0u128;
    for (index, byte) in text.bytes().enumerate() {
        let digit = VALUES[usize::from(byte)];
        if digit == NO_DIGIT || index == 0 && digit > 7 {
            return None; // the first one would go beyond 128 bits
        }
        number = number << 5 | u128::from(digit);
    }
    Some(number)
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    text
}

/// The inverse of [`hex`]; upper case is refused, so that a value has one text form.
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The same for any number of bytes.
pub fn parse_hex_bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| parse_hex::<1>(std::str::from_utf8(pair).ok()?));
    Some(pairs.collect::<Option<Vec<_>>>()?.concat())
}

/// Gives a type with `fmt::Display` and `FromStr` its serde form: the text.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;

/// Gives a byte-array newtype its CBOR form: one byte string of exactly that length.
macro_rules! cbor_as_bytes {
    ($name:ident, $len:literal) => {
        impl<C> minicbor::Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.bytes(&self.0)?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $name {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                <[u8; $len]>::try_from(d.bytes()?)
                    .map(Self)
                    .map_err(|_| minicbor::decode::Error::message(concat!("expected ", $len, " bytes")))
            }
        }
    };
}
pub(crate) use cbor_as_bytes;
