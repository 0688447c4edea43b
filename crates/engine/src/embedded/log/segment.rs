//! One file of the log: a header block, then frames, then zeros or the remains of its earlier use.
//!
//! The header says which version the first frame has and what it chains to. A frame of the segment
//! before with that version or a higher one was abandoned: its sync failed, its commits were not acknowledged,
//! and this segment replaced it.

use super::super::disk::{Disk, DiskFile};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"MUNDILOG";
const FORMAT: u64 = 1;
/// The header has a block of its own, so that writing frames never touches it.
pub(super) const HEADER_BLOCK: u64 = 4096;
const HEADER_BYTES: usize = 56;
const CHECKED_BYTES: usize = HEADER_BYTES - 8;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u64,
    pub(super) first_version: u64,
    /// The checksum that the first frame chains to.
    pub(super) chain: u64,
    /// New with each life of the file, and nobody's to guess: see `frame.rs`.
    pub(super) salt: u64,
}

impl SegmentHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        for (index, word) in [FORMAT, self.number, self.first_version, self.chain, self.salt].into_iter().enumerate() {
            bytes[8 + 8 * index..16 + 8 * index].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let word = |index: usize| bytes[8 * index..8 * index + 8].try_into().ok().map(u64::from_le_bytes);
        if bytes[..8] != MAGIC || word(1)? != FORMAT || word(6)? != xxh3_64(&bytes[..CHECKED_BYTES]) {
            return None;
        }
        Some(Self { number: word(2)?, first_version: word(3)?, chain: word(4)?, salt: word(5)? })
    }

    pub(super) fn read(file: &dyn DiskFile) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_up_to(0, &mut bytes)?;
        Ok(Self::parse(&bytes[..read]))
    }
}

/// A segment that is being written, or that waits until the tree has what it holds.
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) len: u64,
}

/// A number from the operating system's randomness.
pub(super) fn fresh_salt() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; nothing depends on which number it is")]
    RandomState::new().build_hasher().finish()
}

pub(super) fn name(number: u64) -> String {
    format!("{number:020}.log")
}

pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 20)?;
    digits.parse().ok()
}

const SPARE_PREFIX: &str = "spare.";

pub(super) fn spare_name(number: u64) -> String {
    format!("{SPARE_PREFIX}{number}")
}

pub(super) fn spare_number(name: &str) -> Option<u64> {
    name.strip_prefix(SPARE_PREFIX)?.parse().ok()
}

/// Makes a file full of zeros. A sync of preallocated space writes data only; on a growing file it also
/// writes the new length, which costs several times as much.
pub(super) fn preallocate(disk: &dyn Disk, name: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(name)?;
    let filled = fill_with_zeros(&*file, len);
    if let Err(error) = filled {
        // Half a file would hold the space that someone else may need to recover.
        let _leftover = disk.remove(name);
        return Err(error);
    }
    Ok(file)
}

fn fill_with_zeros(file: &dyn DiskFile, len: u64) -> io::Result<()> {
    // One page at a time: the page cache then keeps small folios, and a sync writes no more than was changed.
    const CHUNK: [u8; 4096] = [0; 4096];
    let mut at = 0;
    while at < len {
        let bytes = usize::try_from(len - at).unwrap_or(usize::MAX).min(CHUNK.len());
        file.write_all_at(at, &CHUNK[..bytes])?;
        at += bytes as u64;
    }
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_survive_and_damage_is_noticed(number: u64, first_version: u64, chain: u64, salt: u64, at in 0..HEADER_BYTES, bit in 0..8u8) {
            let header = SegmentHeader { number, first_version, chain, salt };
            let mut bytes = header.to_bytes();
            prop_assert_eq!(SegmentHeader::parse(&bytes), Some(header));
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(SegmentHeader::parse(&bytes), None);
        }
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(number(&name(7)), Some(7));
        assert_eq!(spare_number(&spare_name(7)), Some(7));
        assert_eq!((number("7.log"), number(&spare_name(7)), spare_number(&name(7))), (None, None, None));
    }
}
