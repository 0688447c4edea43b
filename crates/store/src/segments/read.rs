//! Reading records back out of a segment, fetching only what is asked for.

use super::{
    SegmentError,
    format::{Block, Footer, TRAILER_BYTES, decode_block, decode_footer, object_path},
};
use crate::{keyspace::segment::SegmentRecord, objects::Objects};
use bytes::Bytes;
use mundi_model::{Hash, Height, UniverseId, WorldId, limits};
use object_store::path::Path;

/// Neighbouring blocks are fetched by one request up to this size: larger ones gain little over its latency.
const FETCH_BYTES_MAX: u64 = 1024 * 1024;

/// An open segment: its footer is in memory, its blocks are fetched as they are read.
pub struct SegmentReader {
    objects: Objects,
    path: Path,
    size_bytes: u64,
    footer: Footer,
}

impl SegmentReader {
    /// Fetches and checks the footer: one request.
    pub async fn open(
        objects: &Objects,
        universe: UniverseId,
        world: WorldId,
        record: &SegmentRecord,
    ) -> Result<Self, SegmentError> {
        let path = object_path(universe, world, record.start, record.end);
        let corrupt = |what: String| SegmentError::Corrupt { object: path.to_string(), what };
        let tail_bytes = u64::from(record.footer_bytes) + TRAILER_BYTES as u64;
        if record.footer_bytes as usize > limits::SEGMENT_FOOTER_BYTES_MAX || tail_bytes > record.size_bytes {
            return Err(corrupt("its index record claims an impossible size".into()));
        }
        let tail = objects.range(&path, record.size_bytes - tail_bytes..record.size_bytes, record.size_bytes).await?;
        let footer = decode_footer(record, &tail).map_err(corrupt)?;
        if (footer.universe, footer.world) != (universe, world) {
            return Err(corrupt(format!("it belongs to {} of {}", footer.world, footer.universe)));
        }
        Ok(Self { objects: objects.clone(), path, size_bytes: record.size_bytes, footer })
    }

    /// The hashes that the records refer to.
    pub fn refs(&self) -> &[Hash] {
        &self.footer.refs
    }

    /// Records from `from` on, in order: at least one, and few enough to be held in memory. None at or
    /// beyond the end of the segment.
    pub async fn read(&self, from: Height) -> Result<Vec<(Height, Bytes)>, SegmentError> {
        let Some(run) = self.run(from) else { return Ok(Vec::new()) };
        let stored = self.objects.range(&self.path, run.offset..run.offset + run.bytes, self.size_bytes).await?;
        let mut height = run.start;
        let mut offset = 0;
        let mut records = Vec::new();
        for block in run.blocks {
            let end = offset + block.stored_bytes as usize;
            let decoded = decode_block(block, &stored[offset..end]);
            for record in decoded.map_err(|what| SegmentError::Corrupt { object: self.path.to_string(), what })? {
                if height >= from {
                    records.push((height, record));
                }
                height = height.next();
            }
            offset = end;
        }
        Ok(records)
    }

    /// Reads everything, and so checks every byte.
    pub async fn verify(&self) -> Result<(), SegmentError> {
        let mut next = self.footer.start;
        while let Some((last, _)) = self.read(next).await?.last() {
            next = last.next();
        }
        Ok(())
    }

    /// The block that holds `from`, and as many after it as one request should fetch.
    fn run(&self, from: Height) -> Option<Run<'_>> {
        if from < self.footer.start || from >= self.footer.end {
            return None;
        }
        let (mut start, mut offset) = (self.footer.start, 0);
        let mut first = 0;
        for block in &self.footer.blocks {
            let end = start.plus(u64::from(block.records));
            if from < end {
                break;
            }
            (start, offset, first) = (end, offset + u64::from(block.stored_bytes), first + 1);
        }
        let mut bytes = 0;
        let fits = |block: &&Block| {
            let fits = bytes == 0 || bytes + u64::from(block.stored_bytes) <= FETCH_BYTES_MAX;
            bytes += if fits { u64::from(block.stored_bytes) } else { 0 };
            fits
        };
        let count = self.footer.blocks[first..].iter().take_while(fits).count();
        Some(Run { start, offset, bytes, blocks: &self.footer.blocks[first..first + count] })
    }
}

/// Neighbouring blocks, and where they lie.
struct Run<'a> {
    start: Height,
    offset: u64,
    bytes: u64,
    blocks: &'a [Block],
}
