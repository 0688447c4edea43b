//! Canonical CBOR: the deterministic encoding of RFC 8949, section 4.2.1, for records and stored objects.
//!
//! There is one encoder, `minicbor`'s, which writes the shortest heads and definite lengths; the types
//! that it writes keep their maps sorted. And there is one rule for reading: bytes are canonical when
//! they equal the encoding of what they decode to. That catches everything a list of rules would have
//! to name (long heads, open lengths, wrong order, unknown fields, explicit nulls, trailing bytes).

use crate::{Code, Coded};
use minicbor::{Decode, Encode, Encoder};
use std::cell::Cell;

/// Why bytes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    #[error("not the CBOR of a {what}: {cause}")]
    Malformed { what: &'static str, cause: String },
    #[error("the CBOR of a {what} has another, canonical form: it differs from byte {offset}")]
    NotCanonical { what: &'static str, offset: usize },
}

impl Coded for CborError {
    fn code(&self) -> Code {
        match self {
            Self::Malformed { .. } => Code::CborMalformed,
            Self::NotCanonical { .. } => Code::CborNotCanonical,
        }
    }
}

thread_local! {
    /// Where values are encoded before they are copied: a vector that grew on its way would keep room that it never needs.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps no larger scratch than this.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// The canonical bytes of a value, in a vector of just their length.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    encode_into(value, &mut scratch);
    if scratch.capacity() > SCRATCH_BYTES_MAX {
        scratch.shrink_to_fit();
        return scratch;
    }
    let bytes = scratch.as_slice().to_vec();
    SCRATCH.set(scratch);
    bytes
}

/// Appends the canonical bytes of a value.
pub fn encode_into<T: Encode<()>>(value: &T, bytes: &mut Vec<u8>) {
    #[expect(
        clippy::expect_used,
        reason = "a `Vec` takes every write, and no type of this project refuses to be encoded"
    )]
    Encoder::new(bytes).encode(value).map(|_| ()).expect("encoding into memory");
}

/// The value that canonical bytes stand for.
pub fn decode<'b, T: Decode<'b, ()> + Encode<()>>(bytes: &'b [u8]) -> Result<T, CborError> {
    let malformed = |cause: minicbor::decode::Error| {
        let (what, cause) = (short_name::<T>(), cause.to_string());
        CborError::Malformed { what, cause }
    };
    let value: T = minicbor::Decoder::new(bytes).decode().map_err(malformed)?;
    let mut same = SameBytes { expected: bytes, offset: 0 };
    let complete = Encoder::new(&mut same).encode(&value).is_ok() && same.offset == bytes.len();
    match complete {
        true => Ok(value),
        false => Err(CborError::NotCanonical { what: short_name::<T>(), offset: same.offset }),
    }
}

/// A writer that compares instead of keeping, so that the check of a record allocates nothing.
struct SameBytes<'a> {
    expected: &'a [u8],
    offset: usize,
}

impl minicbor::encode::Write for SameBytes<'_> {
    type Error = Differs;

    fn write_all(&mut self, written: &[u8]) -> Result<(), Differs> {
        let expected = &self.expected[self.offset..];
        if expected.starts_with(written) {
            self.offset += written.len();
            return Ok(());
        }
        let equal = expected.iter().zip(written).take_while(|(a, b)| a == b).count();
        self.offset += equal;
        Err(Differs)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the bytes differ")]
struct Differs;

/// A map from text to text, for `#[cbor(with = "cbor::text_map")]`: its keys sort as their encodings do,
/// the shorter first, which is not the order of a `BTreeMap`.
pub mod text_map {
    use minicbor::{Decoder, Encoder, decode::Error};
    use std::collections::BTreeMap;

    pub fn encode<C, W: minicbor::encode::Write>(
        map: &BTreeMap<String, String>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        let mut sorted: Vec<_> = map.iter().collect();
        sorted.sort_by_key(|(key, _)| (key.len(), *key));
        e.map(sorted.len() as u64)?;
        sorted.into_iter().try_for_each(|(key, value)| e.str(key)?.str(value)?.ok())
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<BTreeMap<String, String>, Error> {
        let len = d.map()?.ok_or_else(|| Error::message("a map of open length"))?;
        let mut map = BTreeMap::new();
        for _ in 0..len {
            map.insert(d.str()?.to_owned(), d.str()?.to_owned());
        }
        Ok(map)
    }

    /// With `has_nil`: an empty map at the end of a value is not written.
    pub fn nil() -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::new())
    }

    pub fn is_nil(map: &BTreeMap<String, String>) -> bool {
        map.is_empty()
    }
}

fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hash;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Encode, Decode)]
    struct Sample {
        #[n(0)]
        height: u64,
        #[n(1)]
        hash: Hash,
        #[n(2)]
        note: Option<String>,
    }

    fn sample() -> Sample {
        Sample { height: 500, hash: Hash::from_bytes([7; 32]), note: None }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = encode(&sample());
        assert_eq!(&bytes[..6], &[0x82, 0x19, 0x01, 0xf4, 0x58, 0x20]); // array(2), 500, bytes(32)
        assert_eq!(decode::<Sample>(&bytes).unwrap(), sample());
    }

    #[test]
    fn a_longer_head_an_explicit_null_and_trailing_bytes_are_refused() {
        let good = encode(&sample());
        let long_head = [&[0x82, 0x1a, 0, 0, 0x01, 0xf4][..], &good[4..]].concat();
        let explicit_null = [&[0x83][..], &good[1..], &[0xf6]].concat();
        let trailing = [&good[..], &[0]].concat();
        for bad in [long_head, explicit_null, trailing] {
            let refused = decode::<Sample>(&bad).unwrap_err();
            assert_eq!(refused.code(), Code::CborNotCanonical, "{refused}");
        }
    }

    #[test]
    fn a_truncated_value_is_malformed() {
        let good = encode(&sample());
        for len in 0..good.len() {
            assert_eq!(decode::<Sample>(&good[..len]).unwrap_err().code(), Code::CborMalformed);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_to_their_own_encoding_or_are_refused(bytes: Vec<u8>) {
            if let Ok(value) = decode::<Sample>(&bytes) {
                prop_assert_eq!(encode(&value), bytes);
            }
        }
    }
}
