//! `u/<u>/schema`: the version of the keyspace that a universe is written in.
//!
//! Written by the first worker that boots with leave to do so, and raised by the first of a later minor version, which reads
//! what the earlier ones wrote. Eight bytes, in a fixed layout:
//! the magic `RSV0`, major and minor, little-endian. Monotonic.

use crate::keyspace::{Family, Key, KeyBuilder};
use mundi_model::UniverseId;

const MAGIC: &[u8; 4] = b"RSV0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    pub major: u16,
    pub minor: u16,
}

impl SchemaVersion {
    /// The version that this code reads and writes.
    pub const CURRENT: Self = Self { major: 1, minor: 7 };

    /// The earliest that this code reads. What development versions before it wrote has no reader: there was no release.
    pub const OLDEST: Self = Self { major: 1, minor: 5 };

    /// Whether code of this version reads what was written in the other one, and only has to say that it writes more.
    pub fn can_raise(self, found: Self) -> bool {
        found.major == self.major && (Self::OLDEST.minor..self.minor).contains(&found.minor)
    }

    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&self.major.to_le_bytes());
        bytes[6..].copy_from_slice(&self.minor.to_le_bytes());
        bytes
    }

    /// `None` for what is no marker.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[m0, m1, m2, m3, a, b, c, d] = bytes else { return None };
        let version = Self { major: u16::from_le_bytes([a, b]), minor: u16::from_le_bytes([c, d]) };
        ([m0, m1, m2, m3] == *MAGIC).then_some(version)
    }
}

pub fn key(universe: UniverseId) -> Key {
    KeyBuilder::universe(universe, Family::SchemaVersion).key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_of_the_marker_is_pinned() {
        let marker = SchemaVersion { major: 0x0102, minor: 0x0304 };
        assert_eq!(marker.to_bytes(), *b"RSV0\x02\x01\x04\x03");
    }

    proptest! {
        #[test]
        fn the_value_survives(major: u16, minor: u16, noise: Vec<u8>) {
            let version = SchemaVersion { major, minor };
            prop_assert_eq!(SchemaVersion::from_bytes(&version.to_bytes()), Some(version));
            if let Some(read) = SchemaVersion::from_bytes(&noise) {
                prop_assert_eq!(&read.to_bytes()[..], &noise[..]);
            }
        }
    }
}
