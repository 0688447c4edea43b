//! One frame of the log: a group of commits, checksummed and chained.
//!
//! ```text
//! 0   magic u32        "MFRM"
//! 4   payload length u32
//! 8   version u64      rises by one from frame to frame
//! 16  chain u64        the checksum of the frame before
//! 24  head check u64   over bytes 0..24
//! 32  checksum u64     over bytes 0..32 and the payload
//! 40  payload          padded with zeros to the next multiple of eight
//! ```
//!
//! Both checks are seeded with the salt of the segment and with nothing else, so that a frame can be
//! recognized without its predecessor: that is how damage in the middle is told from a torn end. The salt
//! keeps what users store, and what the file held in an earlier life, from passing for a frame. All numbers
//! are little-endian.

use bytes::{Bytes, BytesMut};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

const MAGIC: [u8; 4] = *b"MFRM";
pub(in crate::embedded) const HEADER_BYTES: usize = 40;
const HEAD_CHECK_AT: usize = 24;
const CHECKSUM_AT: usize = 32;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// A group of the largest transactions, with room to spare; a length beyond it is damage.
pub(in crate::embedded) const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Where a frame stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct FramePlace {
    pub(in crate::embedded) version: u64,
    pub(in crate::embedded) chain: u64,
    pub(in crate::embedded) salt: u64,
}

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Header {
    pub(in crate::embedded) version: u64,
    pub(in crate::embedded) chain: u64,
    pub(in crate::embedded) checksum: u64,
    payload_bytes: usize,
    salt: u64,
}

impl Header {
    /// Reads a header that is whole; the payload is another matter.
    pub(in crate::embedded) fn parse(bytes: &[u8], salt: u64) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        if bytes[..4] != MAGIC || word(HEAD_CHECK_AT) != xxh3_64_with_seed(&bytes[..HEAD_CHECK_AT], salt) {
            return None;
        }
        let payload_bytes = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        Some(Self { version: word(8), chain: word(16), checksum: word(CHECKSUM_AT), payload_bytes, salt })
    }

    /// How much room the frame takes, padding included.
    pub(super) fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes).next_multiple_of(ALIGN) as u64
    }

    /// Whether these are the bytes of the frame that the header begins.
    pub(in crate::embedded) fn matches(&self, frame: &[u8]) -> bool {
        let end = HEADER_BYTES + self.payload_bytes;
        frame.get(..end).is_some_and(|frame| checksum(frame, self.salt) == self.checksum)
    }
}

fn checksum(frame: &[u8], salt: u64) -> u64 {
    let mut hasher = Xxh3::with_seed(salt);
    hasher.update(&frame[..CHECKSUM_AT]);
    hasher.update(&frame[HEADER_BYTES..]);
    hasher.digest()
}

/// A frame under construction. The header is filled in when all is known.
pub(in crate::embedded) struct FrameBuilder(BytesMut);

impl FrameBuilder {
    pub(in crate::embedded) fn with_capacity(payload_bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(HEADER_BYTES + payload_bytes + ALIGN);
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
    pub(in crate::embedded) fn finish(mut self, place: FramePlace) -> (Bytes, u64) {
        let payload_bytes = u32::try_from(self.payload_bytes()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&MAGIC);
        self.0[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
        self.0[8..16].copy_from_slice(&place.version.to_le_bytes());
        self.0[16..24].copy_from_slice(&place.chain.to_le_bytes());
        let head_check = xxh3_64_with_seed(&self.0[..HEAD_CHECK_AT], place.salt);
        self.0[HEAD_CHECK_AT..CHECKSUM_AT].copy_from_slice(&head_check.to_le_bytes());
        let checksum = checksum(&self.0, place.salt);
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
    let payload_bytes = frame.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    let end = (HEADER_BYTES + payload_bytes as usize).min(frame.len());
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

    const PLACE: FramePlace = FramePlace { version: 7, chain: 99, salt: 5 };

    #[test]
    fn a_frame_of_another_life_is_no_frame() {
        let (frame, _) = FrameBuilder::with_capacity(0).finish(PLACE);
        assert!(Header::parse(&frame, PLACE.salt).is_some() && Header::parse(&frame, PLACE.salt + 1).is_none());
    }

    proptest! {
        #[test]
        fn writes_survive_the_frame(ops in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), any::<Option<Vec<u8>>>()), 0..20)) {
            let mut builder = FrameBuilder::with_capacity(100);
            for (key, value) in &ops {
                builder.write(key, value.as_deref());
            }
            let (frame, checksum) = builder.finish(PLACE);
            let header = Header::parse(&frame, PLACE.salt).unwrap();
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
            let (frame, _) = builder.finish(PLACE);
            let end = HEADER_BYTES + Header::parse(&frame, PLACE.salt).unwrap().payload_bytes;
            let mut damaged = frame.to_vec();
            damaged[at.index(end)] ^= 1 << bit;
            prop_assert!(!Header::parse(&damaged, PLACE.salt).is_some_and(|header| header.matches(&damaged)));
        }

        #[test]
        fn arbitrary_bytes_are_no_frame_and_never_panic(bytes: Vec<u8>) {
            prop_assert!(!Header::parse(&bytes, 5).is_some_and(|header| header.matches(&bytes)));
            let _ = writes(&Bytes::from(bytes)).count();
        }
    }
}
