//! From records to the bytes of a segment. The same records always give the same bytes.

use super::{
    SegmentError,
    format::{Block, Footer, encode_tail, object_path},
};
use crate::{keyspace::segment::SegmentRecord, reachability::refs_of_record};
use bytes::Bytes;
use mundi_model::{Hash, Height, UniverseId, WorldId, cbor, limits, record::Record};
use std::collections::BTreeSet;

/// Three is zstd's own default; the records are small and alike, and higher levels gain little on blocks this short.
const ZSTD_LEVEL: i32 = 3;

/// Hashes that a segment refers to before it is closed early, so that its footer stays within bounds.
const REFS_MAX: usize = 100_000;

/// A segment in the making.
pub struct SegmentBuilder {
    universe: UniverseId,
    world: WorldId,
    start: Height,
    next: Height,
    /// Closed blocks, compressed.
    object: Vec<u8>,
    blocks: Vec<Block>,
    /// The open block.
    raw: Vec<u8>,
    raw_records: u32,
    /// Of all blocks, before compression.
    total_bytes: usize,
    refs: BTreeSet<Hash>,
}

/// A segment ready to be written.
#[derive(Debug, Clone)]
pub struct BuiltSegment {
    pub record: SegmentRecord,
    pub object: Bytes,
}

impl SegmentBuilder {
    pub fn new(universe: UniverseId, world: WorldId, start: Height) -> Self {
        Self {
            universe,
            world,
            start,
            next: start,
            object: Vec::new(),
            blocks: Vec::new(),
            raw: Vec::new(),
            raw_records: 0,
            total_bytes: 0,
            refs: BTreeSet::new(),
        }
    }

    /// The height that comes next.
    pub fn next(&self) -> Height {
        self.next
    }

    /// Whether the segment should end here.
    pub fn is_full(&self) -> bool {
        self.total_bytes >= limits::SEGMENT_BYTES_MAX
            || self.next.since(self.start) >= limits::SEGMENT_RECORDS_MAX
            || self.refs.len() >= REFS_MAX
    }

    /// Adds the record of the next height. It is decoded first: what leaves the engine must be readable.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SegmentError> {
        let height = self.next;
        let corrupt = |what: String| self.corrupt(format!("the record at {height} cannot be exported: {what}"));
        let record: Record = cbor::decode(bytes).map_err(|error| corrupt(error.to_string()))?;
        if record.height != height {
            return Err(corrupt(format!("it says that it is at {}", record.height)));
        }
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= limits::VALUE_BYTES_MAX);
        let len = len.ok_or_else(|| corrupt("it is larger than a value can be".into()))?;
        refs_of_record(&record, &mut |hash| {
            self.refs.insert(hash);
        });
        self.raw.extend_from_slice(&len.to_le_bytes());
        self.raw.extend_from_slice(bytes);
        self.raw_records += 1;
        self.total_bytes += 4 + bytes.len();
        self.next = self.next.next();
        if self.raw.len() >= limits::SEGMENT_BLOCK_BYTES { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<(), SegmentError> {
        let failed = |error: &dyn std::fmt::Display| self.corrupt(format!("a block was not compressed: {error}"));
        let stored = zstd::bulk::compress(&self.raw, ZSTD_LEVEL).map_err(|error| failed(&error))?;
        let (Ok(stored_bytes), Ok(raw_bytes)) = (u32::try_from(stored.len()), u32::try_from(self.raw.len())) else {
            return Err(failed(&"it is too large"));
        };
        let checksum = Hash::of(&stored);
        self.blocks.push(Block { records: self.raw_records, stored_bytes, raw_bytes, checksum });
        self.object.extend_from_slice(&stored);
        self.raw.clear();
        self.raw_records = 0;
        Ok(())
    }

    /// The finished object; refused if it would hold nothing.
    pub fn finish(mut self) -> Result<BuiltSegment, SegmentError> {
        let (start, end) = (self.start, self.next);
        if start == end {
            return Err(SegmentError::Unsafe { start, end, why: "the range is empty" });
        }
        if !self.raw.is_empty() {
            self.close_block()?;
        }
        let refs = std::mem::take(&mut self.refs).into_iter().collect();
        let blocks = std::mem::take(&mut self.blocks);
        let footer = Footer { universe: self.universe, world: self.world, start, end, blocks, refs };
        let (tail, checksum) = encode_tail(&footer);
        let footer_bytes = tail.len() - super::format::TRAILER_BYTES;
        let Some(footer_bytes) =
            u32::try_from(footer_bytes).ok().filter(|bytes| *bytes as usize <= limits::SEGMENT_FOOTER_BYTES_MAX)
        else {
            return Err(SegmentError::Unsafe { start, end, why: "its footer would be too large" });
        };
        self.object.extend_from_slice(&tail);
        let size_bytes = self.object.len() as u64;
        let record = SegmentRecord { start, end, size_bytes, footer_bytes, checksum };
        Ok(BuiltSegment { record, object: Bytes::from(self.object) })
    }

    fn corrupt(&self, what: String) -> SegmentError {
        let object = object_path(self.universe, self.world, self.start, self.next).to_string();
        SegmentError::Corrupt { object, what }
    }
}
