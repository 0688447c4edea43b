//! Content hashes. There is one function: SHA-256.

use crate::text::{ParseIdError, cbor_as_bytes, hex, parse_hex, serde_as_text};
use sha2::Digest;
use std::{fmt, str::FromStr};

macro_rules! hash256 {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            pub const LEN: usize = 32;

            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// The hash of some bytes.
            pub fn of(bytes: &[u8]) -> Self {
                Self(sha2::Sha256::digest(bytes).into())
            }

            /// The hash of several pieces, as if they were one.
            pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
                let mut hasher = sha2::Sha256::new();
                for part in parts {
                    hasher.update(part);
                }
                Self(hasher.finalize().into())
            }

            /// The digits alone, as they stand in object keys.
            pub fn to_hex(&self) -> String {
                hex(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(parse_hex)
                    .map(Self)
                    .ok_or_else(|| ParseIdError::new($what, concat!("`", $prefix, "_` and 64 hex digits"), text))
            }
        }

        serde_as_text!($name);
        cbor_as_bytes!($name, 32);
    };
}

hash256!(
    /// The name of a content-addressed object, or the link of a hash chain.
    Hash, "h", "hash"
);
hash256!(
    /// The name of an intent: it covers world, height, index, kind and parameters, so that two forks
    /// never share one and a replay always does.
    IntentHash, "i", "intent hash"
);

/// The hash of bytes that arrive piece by piece and are never in memory together.
#[derive(Debug, Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub fn finish(self) -> Hash {
        Hash::from_bytes(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha256() {
        assert_eq!(Hash::of(b"abc").to_string(), "h_ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Hash::of_parts([&b"a"[..], b"", b"bc"]), Hash::of(b"abc"));
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), Hash::of(b"abc"));
    }

    #[test]
    fn a_hash_is_not_an_intent_hash() {
        let text = Hash::of(b"abc").to_string();
        assert_eq!(text.parse::<Hash>().unwrap(), Hash::of(b"abc"));
        assert!(text.parse::<IntentHash>().is_err());
        assert!(text.to_uppercase().parse::<Hash>().is_err());
    }
}
