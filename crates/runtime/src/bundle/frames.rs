//! Frames: compressed, checksummed, chained.

use super::{BundleError, format::Kind};
use bytes::Bytes;
use mundi_model::{Hash, Height, limits};
use std::io::Read;

/// The first bytes of every bundle; a new layout gets a new one.
pub(super) const MAGIC: &[u8; 8] = b"MUNDIWB1";

/// Kind, first height, count, length before compression, length.
const FIELDS_BYTES: usize = 1 + 8 + 4 + 4 + 4;
const HEAD_BYTES: usize = FIELDS_BYTES + Hash::LEN;

/// Three is zstd's own default.
const ZSTD_LEVEL: i32 = 3;

/// Makes frames, each chained to the one before it.
pub(super) struct FrameWriter {
    chain: Hash,
}

impl FrameWriter {
    pub(super) fn new() -> Self {
        Self { chain: Hash::of(MAGIC) }
    }

    /// The bytes of the next frame. `first` is the height of its first record, and `count` how many things it holds.
    pub(super) fn frame(&mut self, kind: Kind, first: u64, count: usize, raw: &[u8]) -> Result<Bytes, String> {
        let stored = zstd::bulk::compress(raw, ZSTD_LEVEL).map_err(|error| error.to_string())?;
        let len = |len: usize| u32::try_from(len).map_err(|_| format!("a frame of {len}"));
        let mut head = Vec::with_capacity(HEAD_BYTES + stored.len());
        head.push(kind as u8);
        head.extend_from_slice(&first.to_le_bytes());
        for number in [count, raw.len(), stored.len()] {
            head.extend_from_slice(&len(number)?.to_le_bytes());
        }
        self.chain = Hash::of_parts([&self.chain.as_bytes()[..], &head, &stored]);
        head.extend_from_slice(self.chain.as_bytes());
        head.extend_from_slice(&stored);
        Ok(head.into())
    }
}

/// A frame that was read and is what its checksum says.
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) raw: Vec<u8>,
}

/// Reads frames from the front, and believes none that does not continue the chain.
pub(super) struct FrameReader<R> {
    source: R,
    offset: u64,
    chain: Hash,
}

/// Where a reader is, to go on from there later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) offset: u64,
    chain: Hash,
}

impl<R: Read> FrameReader<R> {
    /// From the beginning of a file.
    pub(super) fn new(mut source: R) -> Result<Self, BundleError> {
        let mut magic = [0; MAGIC.len()];
        let unreadable = |error: std::io::Error| BundleError::Unreadable { offset: 0, cause: error.to_string() };
        source.read_exact(&mut magic).map_err(unreadable)?;
        if magic != *MAGIC {
            return Err(BundleError::Frame { offset: 0, what: "it does not begin as a bundle does".to_owned() });
        }
        Ok(Self { source, offset: MAGIC.len() as u64, chain: Hash::of(MAGIC) })
    }

    /// From a mark; the source stands there.
    pub(super) fn resume(source: R, mark: Mark) -> Self {
        Self { source, offset: mark.offset, chain: mark.chain }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { offset: self.offset, chain: self.chain }
    }

    /// The next frame. The end of the file is an error: a bundle says itself where it ends.
    pub(super) fn next(&mut self) -> Result<Frame, BundleError> {
        let offset = self.offset;
        let wrong = |what: String| BundleError::Frame { offset, what };
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let (fields, checksum) = head.split_at(FIELDS_BYTES);
        let number = |at: usize| u32::from_le_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
        let (count, raw_bytes, stored_bytes) = (number(9), number(13) as usize, number(17) as usize);
        let kind = Kind::of(fields[0]).ok_or_else(|| wrong("it is of no known kind".to_owned()))?;
        let first = fields[1..9].iter().rev().fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
        let bound = limits::BUNDLE_FRAME_BYTES_MAX;
        if raw_bytes > bound || stored_bytes > zstd::zstd_safe::compress_bound(bound) {
            return Err(wrong(format!("it claims {raw_bytes} bytes; {bound} are the most")));
        }
        let mut stored = vec![0; stored_bytes];
        self.fill(&mut stored).map_err(|error| of_records(kind, first, count, error))?;
        let expected = Hash::of_parts([&self.chain.as_bytes()[..], fields, &stored]);
        if expected.as_bytes() != checksum {
            return Err(of_records(kind, first, count, wrong("it does not match its checksum".to_owned())));
        }
        let raw = zstd::bulk::decompress(&stored, raw_bytes).map_err(|error| wrong(error.to_string()))?;
        if raw.len() != raw_bytes {
            return Err(wrong(format!("it expands to {} bytes instead of {raw_bytes}", raw.len())));
        }
        self.chain = expected;
        Ok(Frame { kind, offset, first, count, raw })
    }

    /// Whether nothing follows.
    pub(super) fn at_end(&mut self) -> Result<bool, BundleError> {
        let mut byte = [0];
        let read = self.source.read(&mut byte);
        let read = read.map_err(|error| BundleError::Unreadable { offset: self.offset, cause: error.to_string() })?;
        Ok(read == 0)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), BundleError> {
        let offset = self.offset;
        self.source.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => BundleError::Frame {
                offset,
                what: "the file ends within it, or before the end of the bundle".to_owned(),
            },
            _ => BundleError::Unreadable { offset, cause: error.to_string() },
        })?;
        self.offset += buffer.len() as u64;
        Ok(())
    }
}

/// Damage in a frame of records has heights, as far as its head can be believed.
fn of_records(kind: Kind, first: u64, count: u32, error: BundleError) -> BundleError {
    match error {
        BundleError::Frame { offset, what } if kind == Kind::Records => {
            let last = Height::new(first.saturating_add(u64::from(count.max(1)) - 1));
            BundleError::Records { first: Height::new(first), last, offset, what }
        }
        error => error,
    }
}
