//! Frames of a bundle: compressed, checksummed, chained.

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
        let mut stored = zstd::bulk::compress(raw, ZSTD_LEVEL).map_err(|error| error.to_string())?;
        if raw.len() as u64 > limits::BUNDLE_EXPANSION_MAX.saturating_mul(stored.len() as u64) {
            stored = uncompressed(raw)?;
        }
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

/// The same bytes as a zstd frame that holds them as they are (RFC 8878, section 3.1.1): one segment, its size in four bytes, raw
/// blocks. No reader needs to know of it.
fn uncompressed(raw: &[u8]) -> Result<Vec<u8>, String> {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    const SINGLE_SEGMENT_SIZE_IN_FOUR_BYTES: u8 = 0b1010_0000;
    const BLOCK_BYTES_MAX: usize = 128 * 1024;
    let size = u32::try_from(raw.len()).map_err(|_| format!("a frame of {}", raw.len()))?;
    let mut stored = Vec::with_capacity(raw.len() + 16);
    stored.extend_from_slice(&MAGIC);
    stored.push(SINGLE_SEGMENT_SIZE_IN_FOUR_BYTES);
    stored.extend_from_slice(&size.to_le_bytes());
    let mut blocks = raw.chunks(BLOCK_BYTES_MAX).peekable();
    while let Some(block) = blocks.next() {
        // Whether it is the last one, two bits for its type, which is zero for raw bytes, and its size.
        let head = usize::from(blocks.peek().is_none()) | block.len() << 3;
        stored.extend_from_slice(&head.to_le_bytes()[..3]);
        stored.extend_from_slice(block);
    }
    Ok(stored)
}

/// A frame that was read and is what its checksum says.
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) raw: Vec<u8>,
}

impl Frame {
    pub(super) fn wrong(&self, what: String) -> BundleError {
        BundleError::Frame { offset: self.offset, what }
    }

    /// Whether its head says this of what it holds.
    pub(super) fn states(&self, first: u64, count: usize) -> Result<(), BundleError> {
        if (self.first, self.count as usize) == (first, count) {
            return Ok(());
        }
        Err(self.wrong(format!("it says that it holds {} things from {} on; it holds {count}", self.count, self.first)))
    }
}

/// Reads frames from the front, and believes none that does not continue the chain.
pub(super) struct FrameReader<R> {
    source: R,
    offset: u64,
    chain: Hash,
    /// The bytes that were expanded so far, and the bytes they came from.
    expanded: u64,
    stored: u64,
}

/// Where a reader is, to continue from there later.
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
        Ok(Self { source, offset: MAGIC.len() as u64, chain: Hash::of(MAGIC), expanded: 0, stored: 0 })
    }

    /// From a mark, at which the source is positioned.
    pub(super) fn resume(source: R, mark: Mark) -> Self {
        Self { source, offset: mark.offset, chain: mark.chain, expanded: 0, stored: 0 }
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
        self.allow(offset, raw_bytes as u64, stored_bytes as u64)?;
        let raw = zstd::bulk::decompress(&stored, raw_bytes).map_err(|error| wrong(error.to_string()))?;
        if raw.len() != raw_bytes {
            return Err(wrong(format!("it expands to {} bytes instead of {raw_bytes}", raw.len())));
        }
        self.chain = expected;
        Ok(Frame { kind, offset, first, count, raw })
    }

    /// Whether all that was read may expand to what it says.
    fn allow(&mut self, offset: u64, raw_bytes: u64, stored_bytes: u64) -> Result<(), BundleError> {
        self.expanded = self.expanded.saturating_add(raw_bytes);
        self.stored = self.stored.saturating_add(stored_bytes);
        let max =
            limits::BUNDLE_EXPANDED_BYTES_MIN.saturating_add(limits::BUNDLE_EXPANSION_MAX.saturating_mul(self.stored));
        if self.expanded <= max { Ok(()) } else { Err(BundleError::Expands { offset, expanded: self.expanded, max }) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_compresses_too_well_is_stored_as_it_is_and_a_reader_takes_it() {
        for len in [1, 127, 128 * 1024, 128 * 1024 + 1, limits::BUNDLE_PART_BYTES] {
            let raw = vec![0; len];
            let frame = FrameWriter::new().frame(Kind::Part, 0, 1, &raw).unwrap();
            let stored = frame.len() - HEAD_BYTES;
            assert!(len as u64 <= limits::BUNDLE_EXPANSION_MAX * stored as u64, "{len} bytes are stored as {stored}");
            let file = [&MAGIC[..], &frame].concat();
            assert_eq!(FrameReader::new(&file[..]).unwrap().next().unwrap().raw, raw);
        }
    }

    #[test]
    fn a_small_file_that_expands_to_much_is_refused_by_a_code_of_its_own() {
        let raw = vec![0; limits::BUNDLE_FRAME_BYTES_MAX];
        let stored = zstd::bulk::compress(&raw, ZSTD_LEVEL).unwrap();
        let (mut file, mut chain) = (MAGIC.to_vec(), Hash::of(MAGIC));
        for _ in 0..256 {
            let mut head = vec![Kind::Part as u8];
            head.extend_from_slice(&0u64.to_le_bytes());
            for number in [1, raw.len(), stored.len()] {
                head.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
            }
            chain = Hash::of_parts([&chain.as_bytes()[..], &head, &stored]);
            file.extend_from_slice(&[&head, &chain.as_bytes()[..], &stored].concat());
        }
        assert!(file.len() < 256 * 1024, "a gigabyte in {} bytes", file.len());
        let (mut reader, mut expanded) = (FrameReader::new(&file[..]).unwrap(), 0);
        let refused = loop {
            match reader.next() {
                Ok(frame) => expanded += frame.raw.len() as u64,
                Err(refused) => break refused,
            }
        };
        assert_eq!(mundi_model::Coded::code(&refused), mundi_model::Code::BundleTooLarge);
        let max = limits::BUNDLE_EXPANDED_BYTES_MIN + limits::BUNDLE_EXPANSION_MAX * file.len() as u64;
        assert!(expanded <= max, "{expanded} bytes were expanded before it was refused");
    }

    proptest! {
        #[test]
        fn raw_blocks_are_zstd(raw in proptest::collection::vec(any::<u8>(), 0..400_000)) {
            let stored = uncompressed(&raw).unwrap();
            prop_assert!(raw.is_empty() || zstd::bulk::decompress(&stored, raw.len()).unwrap() == raw);
        }
    }
}
