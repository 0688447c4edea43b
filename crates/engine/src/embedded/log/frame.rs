//! One frame of the log: a group of commits, checksummed and chained.
//!
//! ```text
//! 0   magic u32        "MFRM"
//! 4   payload length u32
//! 8   version u64      rises by one from frame to frame
//! 16  chain u64        the checksum of the frame before
//! 24  checksum u64     over bytes 0..24 and the payload
//! 32  payload          padded with zeros to the next multiple of eight
//! ```
//!
//! The checksum is seeded with nothing but the frame itself, so that a frame can be recognized without
//! its predecessor: that is how damage in the middle is told from a torn end. All numbers are
//! little-endian.

use bytes::{Bytes, BytesMut};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 4] = *b"MFRM";
pub(in crate::embedded) const HEADER_BYTES: usize = 32;
const CHECKSUM_AT: usize = 24;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// A group of the largest transactions, with room to spare; a length beyond it is damage.
pub(in crate::embedded) const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Header {
    pub(in crate::embedded) version: u64,
    pub(in crate::embedded) chain: u64,
    pub(in crate::embedded) checksum: u64,
    pub(super) payload_bytes: usize,
}

impl Header {
    /// Reads a header whose magic and length could be those of a frame; the checksum is another matter.
    pub(in crate::embedded) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let payload_bytes = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        if bytes[..4] != MAGIC || payload_bytes > PAYLOAD_BYTES_MAX {
            return None;
        }
        Some(Self { version: word(8), chain: word(16), checksum: word(CHECKSUM_AT), payload_bytes })
    }

    /// How much room the frame takes, padding included.
    pub(super) fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes).next_multiple_of(ALIGN) as u64
    }

    /// Whether these are the bytes of the frame that the header begins.
    pub(in crate::embedded) fn matches(&self, frame: &[u8]) -> bool {
        frame.len() >= HEADER_BYTES + self.payload_bytes
            && checksum(&frame[..HEADER_BYTES + self.payload_bytes]) == self.checksum
    }
}

fn checksum(frame: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&frame[..CHECKSUM_AT]);
    hasher.update(&frame[HEADER_BYTES..]);
    hasher.digest()
}

/// A frame under construction. The header is filled in when all is known.
pub(in crate::embedded) struct FrameBuilder(BytesMut);

impl FrameBuilder {
    pub(in crate::embedded) fn with_capacity(payload_bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(HEADER_BYTES + payload_bytes + 8);
        buffer.resize(HEADER_BYTES, 0);
        Self(buffer)
    }

    pub(in crate::embedded) fn payload_bytes(&self) -> usize {
        self.0.len() - HEADER_BYTES
    }

    /// Appends one write; `None` deletes.
    pub(in crate::embedded) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        // Limits keep keys below 2^16 and values below 2^32 - 1.
        let key_bytes = u16::try_from(key.len()).unwrap_or(u16::MAX);
        let value_bytes = value.map_or(DELETED, |value| u32::try_from(value.len()).unwrap_or(u32::MAX - 1));
        self.0.extend_from_slice(&key_bytes.to_le_bytes());
        self.0.extend_from_slice(&value_bytes.to_le_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value.unwrap_or_default());
    }

    /// The bytes to write, and the checksum that the next frame chains to.
    pub(in crate::embedded) fn finish(mut self, version: u64, chain: u64) -> (Bytes, u64) {
        let payload_bytes = self.payload_bytes();
        self.0[..4].copy_from_slice(&MAGIC);
        self.0[4..8].copy_from_slice(&u32::try_from(payload_bytes).unwrap_or(u32::MAX).to_le_bytes());
        self.0[8..16].copy_from_slice(&version.to_le_bytes());
        self.0[16..24].copy_from_slice(&chain.to_le_bytes());
        let checksum = checksum(&self.0);
        self.0[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let padded = self.0.len().next_multiple_of(ALIGN);
        self.0.resize(padded, 0);
        (self.0.freeze(), checksum)
    }
}

const DELETED: u32 = u32::MAX;
const WRITE_HEAD_BYTES: usize = 6;

/// The writes of a frame, as slices of its buffer. The frame must be whole: ends early at nonsense.
pub(in crate::embedded) fn writes(frame: &Bytes) -> impl Iterator<Item = (Bytes, Option<Bytes>)> + '_ {
    let end = Header::parse(frame).map_or(0, |header| HEADER_BYTES + header.payload_bytes).min(frame.len());
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let head = frame.get(at..at + WRITE_HEAD_BYTES).filter(|_| at + WRITE_HEAD_BYTES <= end)?;
        let key_bytes = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_bytes = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let key_at = at + WRITE_HEAD_BYTES;
        let value_at = key_at + key_bytes;
        let next = if value_bytes == DELETED { value_at } else { value_at + value_bytes as usize };
        if next > end {
            return None;
        }
        at = next;
        Some((frame.slice(key_at..value_at), (value_bytes != DELETED).then(|| frame.slice(value_at..next))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn writes_survive_the_frame(ops in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), any::<Option<Vec<u8>>>()), 0..20)) {
            let mut builder = FrameBuilder::with_capacity(100);
            for (key, value) in &ops {
                builder.write(key, value.as_deref());
            }
            let (frame, checksum) = builder.finish(7, 99);
            let header = Header::parse(&frame).unwrap();
            prop_assert_eq!((header.version, header.chain, header.checksum), (7, 99, checksum));
            prop_assert!(header.matches(&frame));
            prop_assert_eq!(header.frame_bytes(), frame.len() as u64);
            let back: Vec<_> = writes(&frame).map(|(key, value)| (key.to_vec(), value.map(|value| value.to_vec()))).collect();
            prop_assert_eq!(back, ops);
        }

        #[test]
        fn any_flipped_bit_is_noticed(value: Vec<u8>, at: prop::sample::Index, bit in 0..8u8) {
            let mut builder = FrameBuilder::with_capacity(100);
            builder.write(b"key", Some(&value));
            let (frame, _) = builder.finish(7, 99);
            let end = HEADER_BYTES + Header::parse(&frame).unwrap().payload_bytes;
            let mut damaged = frame.to_vec();
            damaged[at.index(end)] ^= 1 << bit;
            prop_assert!(!Header::parse(&damaged).is_some_and(|header| header.matches(&damaged)));
        }

        #[test]
        fn arbitrary_bytes_are_no_frame_and_never_panic(bytes: Vec<u8>) {
            prop_assert!(!Header::parse(&bytes).is_some_and(|header| header.matches(&bytes)));
            let _ = writes(&Bytes::from(bytes)).count();
        }
    }
}
