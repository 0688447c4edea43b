//! The bytes of a segment: footer, trailer, blocks. Pure functions; every length in them may lie.

use crate::keyspace::segment::SegmentRecord;
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_model::{Hash, Height, UniverseId, WorldId, cbor, limits};
use object_store::path::Path;

/// The last bytes of every segment; a new layout gets a new one.
const MAGIC: &[u8; 8] = b"MUNDSEG1";

/// Footer checksum, footer length, magic.
pub(super) const TRAILER_BYTES: usize = Hash::LEN + 4 + MAGIC.len();

/// The index inside a segment.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Footer {
    #[n(0)]
    pub universe: UniverseId,
    #[n(1)]
    pub world: WorldId,
    /// The first height.
    #[n(2)]
    pub start: Height,
    /// The height after the last one.
    #[n(3)]
    pub end: Height,
    /// In order and without gaps: where a block begins is the sum of those before it.
    #[n(4)]
    pub blocks: Vec<Block>,
    /// Every content-store object that the records refer to, ascending: the reachability walk reads this
    /// instead of the records.
    #[n(5)]
    pub refs: Vec<Hash>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Block {
    #[n(0)]
    pub records: u32,
    #[n(1)]
    pub stored_bytes: u32,
    /// Before compression.
    #[n(2)]
    pub raw_bytes: u32,
    /// Over the stored bytes.
    #[n(3)]
    pub checksum: Hash,
}

/// Where a segment lies in the object store.
pub fn object_path(universe: UniverseId, world: WorldId, start: Height, end: Height) -> Path {
    Path::from(format!("segments/{universe}/{world}/{start}-{end}.log"))
}

/// Where all segments of a universe lie.
pub(crate) fn objects_prefix(universe: UniverseId) -> Path {
    Path::from(format!("segments/{universe}"))
}

/// The world of a segment object; `None` for an object that is no segment of the universe.
pub(crate) fn world_of_path(universe: UniverseId, path: &Path) -> Option<WorldId> {
    place_of_path(universe, path.as_ref()).map(|(world, _)| world)
}

/// The world of a segment object, and the height after its last record.
pub(super) fn place_of_path(universe: UniverseId, path: &str) -> Option<(WorldId, Height)> {
    let place = path.strip_prefix(objects_prefix(universe).as_ref())?.strip_prefix('/')?;
    let (world, heights) = place.split_once('/')?;
    let (_, end) = heights.strip_suffix(".log")?.split_once('-')?;
    Some((world.parse().ok()?, end.parse().ok()?))
}

/// Footer and trailer, and the checksum for the index record.
pub(super) fn encode_tail(footer: &Footer) -> (Vec<u8>, Hash) {
    let mut tail = cbor::encode(footer);
    let checksum = Hash::of(&tail);
    #[expect(clippy::cast_possible_truncation, reason = "bounded by SEGMENT_FOOTER_BYTES_MAX, which the builder keeps")]
    let len = tail.len() as u32;
    tail.extend_from_slice(checksum.as_bytes());
    tail.extend_from_slice(&len.to_le_bytes());
    tail.extend_from_slice(MAGIC);
    (tail, checksum)
}

/// The footer in the last bytes of a segment, if they are what the index record says.
pub fn decode_footer(record: &SegmentRecord, tail: &[u8]) -> Result<Footer, String> {
    let footer_len = tail.len().checked_sub(TRAILER_BYTES).ok_or("it ends before its trailer")?;
    let (footer, trailer) = tail.split_at(footer_len);
    if footer_len as u64 != u64::from(record.footer_bytes) {
        return Err(format!("its footer has {footer_len} bytes instead of {}", record.footer_bytes));
    }
    let (checksum, rest) = trailer.split_at(Hash::LEN);
    let (len, magic) = rest.split_at(4);
    if magic != MAGIC || len != record.footer_bytes.to_le_bytes() || checksum != record.checksum.as_bytes() {
        return Err("its trailer does not match the index".into());
    }
    if Hash::of(footer) != record.checksum {
        return Err("its footer does not match the checksum in the index".into());
    }
    let footer: Footer = cbor::decode(footer).map_err(|error| error.to_string())?;
    check_footer(record, &footer)?;
    Ok(footer)
}

/// Checks a footer against its index record, and within itself.
fn check_footer(record: &SegmentRecord, footer: &Footer) -> Result<(), String> {
    if (footer.start, footer.end) != (record.start, record.end) || footer.start >= footer.end {
        return Err(format!("it holds {}..{} instead of {}..{}", footer.start, footer.end, record.start, record.end));
    }
    let records: u64 = footer.blocks.iter().map(|block| u64::from(block.records)).sum();
    if records != footer.end.since(footer.start) {
        return Err("its blocks do not add up to its heights".into());
    }
    let stored: u64 = footer.blocks.iter().map(|block| u64::from(block.stored_bytes)).sum();
    let tail = u64::from(record.footer_bytes) + TRAILER_BYTES as u64;
    if stored.checked_add(tail) != Some(record.size_bytes) {
        return Err("its blocks do not add up to its size".into());
    }
    let is_sane = |block: &Block| {
        // Each record has a length of four bytes and at least one byte of CBOR.
        let raw = block.raw_bytes as usize;
        block.records > 0 && raw <= limits::SEGMENT_BLOCK_BYTES_MAX && raw / 5 >= block.records as usize
    };
    let raw: u64 = footer.blocks.iter().map(|block| u64::from(block.raw_bytes)).sum();
    if raw > (limits::SEGMENT_BYTES_MAX + limits::SEGMENT_BLOCK_BYTES_MAX) as u64 {
        return Err("its blocks claim more than a segment holds".into());
    }
    if footer.blocks.iter().all(is_sane) { Ok(()) } else { Err("a block claims an impossible size".into()) }
}

/// The records of a block, if the stored bytes are what the footer says.
pub fn decode_block(block: &Block, stored: &[u8]) -> Result<Vec<Bytes>, String> {
    if Hash::of(stored) != block.checksum {
        return Err("a block does not match its checksum".into());
    }
    let raw_bytes = block.raw_bytes as usize;
    if raw_bytes > limits::SEGMENT_BLOCK_BYTES_MAX {
        return Err("a block claims an impossible size".into());
    }
    let raw = zstd::bulk::decompress(stored, raw_bytes).map_err(|error| format!("a block does not expand: {error}"))?;
    if raw.len() != raw_bytes {
        return Err(format!("a block expands to {} bytes instead of {raw_bytes}", raw.len()));
    }
    split_records(Bytes::from(raw), block.records)
}

fn split_records(mut raw: Bytes, count: u32) -> Result<Vec<Bytes>, String> {
    let mut records = Vec::new();
    while !raw.is_empty() {
        let Some((len, _)) = raw.split_first_chunk::<4>() else {
            return Err("a block ends within a length".into());
        };
        let len = u32::from_le_bytes(*len) as usize;
        let _ = raw.split_to(4);
        if len > raw.len() {
            return Err("a record reaches beyond its block".into());
        }
        records.push(raw.split_to(len));
    }
    if records.len() == count as usize { Ok(records) } else { Err("a block holds another number of records".into()) }
}
