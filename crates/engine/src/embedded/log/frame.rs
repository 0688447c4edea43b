//! One frame of the log: a group of commits, checksummed and chained.
//!
//! ```text
//! 0   magic u32        "MFR2"
//! 4   payload length u32
//! 8   version u64      rises by one from frame to frame
//! 16  chain u64        the checksum of the frame before
//! 24  head check u64   over bytes 0..24
//! 32  checksum u64     over bytes 0..32 and the payload
//! 40  payload          padded with zeros to the next multiple of eight
//! ```
//!
//! A write in the payload says how many bytes of its key are those of the key before it, and holds the rest. Keys come in
//! order and begin with universe and world, so most of a key is seldom written twice: a third of the log.
//!
//! Both checks are seeded with the salt of the segment and with nothing else, so that a frame can be
//! recognized without its predecessor: that is how damage in the middle is told from a torn end. The salt
//! keeps what users store, and what the file held in an earlier life, from passing for a frame. All numbers
//! are little-endian.

use crate::recent::Writes;
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

const MAGIC: [u8; 4] = *b"MFR2";
/// Of backups of format 1: their writes have whole keys.
const MAGIC_OF_WHOLE_KEYS: [u8; 4] = *b"MFRM";
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

/// The header of a frame.
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
        let known = bytes[..4] == MAGIC || bytes[..4] == MAGIC_OF_WHOLE_KEYS;
        if !known || word(HEAD_CHECK_AT) != xxh3_64_with_seed(&bytes[..HEAD_CHECK_AT], salt) {
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
pub(in crate::embedded) struct FrameBuilder {
    bytes: BytesMut,
    last_key: Vec<u8>,
}

impl FrameBuilder {
    pub(in crate::embedded) fn with_capacity(payload_bytes: usize) -> Self {
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + payload_bytes + ALIGN);
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, last_key: Vec::new() }
    }

    pub(in crate::embedded) fn payload_bytes(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Appends one write; `None` deletes.
    pub(in crate::embedded) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let shared = u8::try_from(same(&self.last_key, key)).unwrap_or(u8::MAX);
        let rest = &key[usize::from(shared)..];
        self.last_key.truncate(usize::from(shared));
        self.last_key.extend_from_slice(rest);
        // Limits keep keys below 2^16 and values below 2^32 - 1.
        let rest_bytes = u16::try_from(rest.len()).unwrap_or(u16::MAX);
        let value_bytes = value.map_or(DELETED, |value| u32::try_from(value.len()).unwrap_or(u32::MAX - 1));
        self.bytes.extend_from_slice(&[shared]);
        self.bytes.extend_from_slice(&rest_bytes.to_le_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// The bytes to write, and the checksum that the next frame chains to.
    pub(in crate::embedded) fn finish(mut self, place: FramePlace) -> (Bytes, u64) {
        let payload_bytes = u32::try_from(self.payload_bytes()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&MAGIC);
        self.bytes[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&place.version.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&place.chain.to_le_bytes());
        let head_check = xxh3_64_with_seed(&self.bytes[..HEAD_CHECK_AT], place.salt);
        self.bytes[HEAD_CHECK_AT..CHECKSUM_AT].copy_from_slice(&head_check.to_le_bytes());
        let checksum = checksum(&self.bytes, place.salt);
        self.bytes[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let padded = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(padded, 0);
        (self.bytes.freeze(), checksum)
    }
}

/// How many bytes two keys begin with alike.
fn same(one: &[u8], other: &[u8]) -> usize {
    const WORD: usize = 8;
    let words = one.chunks_exact(WORD).zip(other.chunks_exact(WORD)).take_while(|(one, other)| one == other).count();
    let rest = one.iter().zip(other).skip(words * WORD).take_while(|(one, other)| one == other).count();
    words * WORD + rest
}

const DELETED: u32 = u32::MAX;
/// The head of a write: how many bytes its key shares, then the lengths of the rest of the key and of the value.
const SHARED_BYTES: usize = 1;
const LENGTHS_BYTES: usize = 6;

/// Where a write lies in its frame.
struct WriteSpan {
    shared: usize,
    rest: Range<usize>,
    /// `None` deletes.
    value: Option<Range<usize>>,
}

/// The frame must be whole: ends early at nonsense.
fn places(frame: &[u8]) -> impl Iterator<Item = WriteSpan> + '_ {
    let payload_bytes = frame.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    let end = (HEADER_BYTES + payload_bytes as usize).min(frame.len());
    let shared_bytes = if frame.starts_with(&MAGIC_OF_WHOLE_KEYS) { 0 } else { SHARED_BYTES };
    let (mut at, mut key_bytes) = (HEADER_BYTES, 0);
    std::iter::from_fn(move || {
        let (shared, lengths) = frame.get(at..end)?.split_at_checked(shared_bytes)?;
        let lengths: &[u8; LENGTHS_BYTES] = lengths.first_chunk()?;
        let shared = shared.first().map_or(0, |bytes| usize::from(*bytes));
        let rest_at = at + shared_bytes + LENGTHS_BYTES;
        let value_at = rest_at + usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let value_bytes = u32::from_le_bytes([lengths[2], lengths[3], lengths[4], lengths[5]]);
        let next = if value_bytes == DELETED { value_at } else { value_at + value_bytes as usize };
        if next > end || shared > key_bytes {
            return None;
        }
        (at, key_bytes) = (next, shared + value_at - rest_at);
        Some(WriteSpan { shared, rest: rest_at..value_at, value: (value_bytes != DELETED).then_some(value_at..next) })
    })
}

/// The writes of a frame. All keys are parts of one piece of memory, and the values are parts of the frame.
pub(in crate::embedded) fn writes(frame: &Bytes) -> Writes {
    let (count, bytes) =
        places(frame).fold((0, 0), |(count, bytes), place| (count + 1, bytes + place.shared + place.rest.len()));
    let (mut keys, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(count));
    let mut last = 0;
    for place in places(frame) {
        let at = keys.len();
        keys.extend_from_within(last..last + place.shared);
        keys.extend_from_slice(&frame[place.rest]);
        ends.push((keys.len(), place.value));
        last = at;
    }
    let (keys, mut at) = (Bytes::from(keys), 0);
    let write = |(end, value): (usize, Option<Range<usize>>)| {
        let key = keys.slice(std::mem::replace(&mut at, end)..end);
        (key, value.map(|value| frame.slice(value)))
    };
    ends.into_iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: FramePlace = FramePlace { version: 7, chain: 99, salt: 5 };

    /// Keys that have nothing in common, a little, and more than can be said.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let like =
            |alike: usize| prop::collection::vec(0..3u8, 0..4).prop_map(move |end| [vec![7; alike], end].concat());
        prop_oneof![prop::collection::vec(any::<u8>(), 1..40), like(3), like(254), like(600)]
    }

    #[test]
    fn what_a_key_has_in_common_with_the_one_before_is_written_once() {
        let mut builder = FrameBuilder::with_capacity(0);
        builder.write(b"world/1/head", None);
        let before = builder.payload_bytes();
        builder.write(b"world/1/journal", None);
        assert_eq!(builder.payload_bytes() - before, SHARED_BYTES + LENGTHS_BYTES + b"journal".len());
    }

    #[test]
    fn a_frame_of_whole_keys_is_still_read() {
        let mut frame = [&MAGIC_OF_WHOLE_KEYS[..], &22u32.to_le_bytes(), &[0; HEADER_BYTES - 8]].concat();
        for (key, value) in [(b"ka", Some(b"x")), (b"kb", None)] {
            frame.extend_from_slice(&2u16.to_le_bytes());
            frame.extend_from_slice(&value.map_or(DELETED, |_| 1).to_le_bytes());
            frame.extend_from_slice(key);
            frame.extend_from_slice(value.map_or(&[], |value| &value[..]));
        }
        let of = |text: &'static [u8]| Bytes::from_static(text);
        assert_eq!(writes(&frame.into()), [(of(b"ka"), Some(of(b"x"))), (of(b"kb"), None)]);
    }

    #[test]
    fn a_frame_of_another_life_is_no_frame() {
        let (frame, _) = FrameBuilder::with_capacity(0).finish(PLACE);
        assert!(Header::parse(&frame, PLACE.salt).is_some() && Header::parse(&frame, PLACE.salt + 1).is_none());
    }

    proptest! {
        #[test]
        fn writes_survive_the_frame(ops in prop::collection::vec((keys(), any::<Option<Vec<u8>>>()), 0..20)) {
            let mut builder = FrameBuilder::with_capacity(100);
            for (key, value) in &ops {
                builder.write(key, value.as_deref());
            }
            let (frame, checksum) = builder.finish(PLACE);
            let header = Header::parse(&frame, PLACE.salt).unwrap();
            prop_assert_eq!((header.version, header.chain, header.checksum), (7, 99, checksum));
            prop_assert!(header.matches(&frame));
            prop_assert_eq!(header.frame_bytes(), frame.len() as u64);
            let back: Vec<_> = writes(&frame).into_iter().map(|(key, value)| (key.to_vec(), value.map(|value| value.to_vec()))).collect();
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
            let _ = writes(&Bytes::from(bytes));
        }
    }
}
