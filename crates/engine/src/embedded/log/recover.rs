//! Recovery of the log after a crash.
//!
//! Frames are read in order as long as each is whole, has the next version and chains to the one before.
//! Where that ends, one of two things happened:
//!
//! - the last frame was being written: a **torn tail**. It was never acknowledged and is dropped;
//! - something that was acknowledged is damaged or gone. It shows by a valid frame of a later version
//!   behind the damage, by a later segment that begins elsewhere, or by the watermark of acknowledged
//!   versions. That is **corrupt**: nothing is changed, and the error names file and offset.

use super::{
    super::disk::{Disk, DiskFile},
    Log,
    frame::{ALIGN, HEADER_BYTES, Header},
    segment::{self, HEADER_BLOCK, Segment, SegmentHeader},
};
use crate::EngineError;
use bytes::Bytes;
use std::{collections::VecDeque, sync::Arc};

/// A log that was found whole.
pub(in crate::embedded) struct Recovered {
    pub(in crate::embedded) log: Log,
    /// The highest version in it; one less than the first version if there is no frame.
    pub(in crate::embedded) last_version: u64,
    /// The version of the oldest frame that is still there.
    pub(in crate::embedded) first_version: u64,
    disk: Arc<dyn Disk>,
    places: Vec<FrameLocation>,
    /// The number of the segment that is written on.
    active: u64,
}

/// Where a frame lies.
struct FrameLocation {
    segment: u64,
    offset: u64,
    frame_bytes: u64,
    version: u64,
    salt: u64,
}

impl Recovered {
    /// Makes durable what was read, before anyone is shown it.
    pub(in crate::embedded) fn settle(&self) -> Result<(), EngineError> {
        let last = self.places.last().filter(|place| place.segment == self.active);
        let frame = last.map(|place| self.frames_above(place.version - 1).next().transpose()).transpose()?.flatten();
        self.log.settle(frame.as_ref())
    }

    /// The frames above a version, in order.
    pub(in crate::embedded) fn frames_above(&self, version: u64) -> impl Iterator<Item = Result<Bytes, EngineError>> {
        let mut open: Option<(u64, Arc<dyn DiskFile>)> = None;
        self.places.iter().filter(move |place| place.version > version).map(move |place| {
            let name = segment::name(place.segment);
            let failed = |error| EngineError::failed(format!("reading {}", self.disk.path(&name).display()), error);
            let file = match &open {
                Some((number, file)) if *number == place.segment => file.clone(),
                _ => self.disk.open(&name).map_err(failed)?,
            };
            open = Some((place.segment, file.clone()));
            let mut frame = vec![0; usize::try_from(place.frame_bytes).unwrap_or(0)];
            file.read_up_to(place.offset, &mut frame).map_err(failed)?;
            let frame = Bytes::from(frame);
            match Header::parse(&frame, place.salt) {
                Some(header) if header.matches(&frame) => Ok(frame),
                _ => Err(corrupt(&*self.disk, &name, place.offset, "a frame changed while it was read")),
            }
        })
    }
}

/// Reads the log of a folder, without changing anything. `acknowledged` is the separately kept watermark.
pub(in crate::embedded) fn recover(
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    acknowledged: u64,
) -> Result<Option<Recovered>, EngineError> {
    let failed = |error| EngineError::failed(format!("reading {}", disk.path("").display()), error);
    let names = disk.list().map_err(failed)?;
    let spares = names.iter().filter(|name| segment::spare_number(name).is_some()).cloned().collect();
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    numbers.sort_unstable();
    if numbers.is_empty() {
        return Ok(None);
    }
    let segments = open_all(&*disk, &numbers)?;
    let mut scan = Scan::new(&*disk, segments[0].header);
    for (index, segment) in segments.iter().enumerate() {
        scan.segment(segment, segments.get(index + 1).map(|next| next.header))?;
    }
    let last_version = scan.next_version - 1;
    let last_name = segment::name(scan.header.number);
    if last_version < acknowledged {
        let what = format!("the log ends at version {last_version}, but version {acknowledged} was acknowledged");
        return Err(corrupt(&*disk, &last_name, scan.offset, what));
    }
    let first_version = segments[0].header.first_version;
    let Scan { offset, next_version, chain, full, places, .. } = scan;
    let Some(active) = segments.into_iter().next_back() else { return Ok(None) };
    let active_number = active.header.number;
    let log = Log::resume(disk.clone(), segment_bytes, active, offset, next_version, chain, full, spares);
    Ok(Some(Recovered { log, last_version, first_version, disk, places, active: active_number }))
}

fn open_all(disk: &dyn Disk, numbers: &[u64]) -> Result<Vec<Segment>, EngineError> {
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        let missing = pair[0] + 1;
        return Err(corrupt(disk, &segment::name(missing), 0, "a segment in the middle of the log is missing"));
    }
    let open = |&number: &u64| {
        let name = segment::name(number);
        let failed = |error| EngineError::failed(format!("reading {}", disk.path(&name).display()), error);
        let file = disk.open(&name).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        match SegmentHeader::read(&*file).map_err(failed)? {
            Some(header) if header.number == number => Ok(Segment { header, file, len }),
            _ => Err(corrupt(disk, &name, 0, "the header of a log segment is damaged")),
        }
    };
    numbers.iter().map(open).collect()
}

/// The state of a reading from the first segment to the last.
struct Scan<'a> {
    disk: &'a dyn Disk,
    header: SegmentHeader,
    /// Where in that segment the next frame is, or would be.
    offset: u64,
    next_version: u64,
    chain: u64,
    full: VecDeque<(u64, String)>,
    places: Vec<FrameLocation>,
}

impl<'a> Scan<'a> {
    fn new(disk: &'a dyn Disk, first: SegmentHeader) -> Self {
        Self {
            disk,
            header: first,
            offset: HEADER_BLOCK,
            next_version: first.first_version,
            chain: first.chain,
            full: VecDeque::new(),
            places: Vec::new(),
        }
    }

    fn segment(&mut self, segment: &Segment, next: Option<SegmentHeader>) -> Result<(), EngineError> {
        let name = segment::name(segment.header.number);
        let failed = |error| EngineError::failed(format!("reading {}", self.disk.path(&name).display()), error);
        let mut bytes = vec![0; usize::try_from(segment.len).unwrap_or(usize::MAX)];
        let read = segment.file.read_up_to(0, &mut bytes).map_err(failed)?;
        bytes.truncate(read);
        self.header = segment.header;
        self.offset = HEADER_BLOCK;
        while next.is_none_or(|next| self.next_version < next.first_version) && self.frame(&bytes) {}
        match next {
            Some(next) if next.first_version == self.next_version && next.chain == self.chain => {
                self.full.push_back((self.next_version - 1, name));
                Ok(())
            }
            Some(next) => {
                let what = format!(
                    "version {} is damaged or missing; the next segment begins with version {}",
                    self.next_version, next.first_version
                );
                Err(corrupt(self.disk, &name, self.offset, what))
            }
            None => self.end_is_torn_at_most(&bytes, &name),
        }
    }

    /// Takes the frame at the current place, if the expected one is there.
    fn frame(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = usize::try_from(self.offset).ok().and_then(|offset| bytes.get(offset..)) else { return false };
        let Some(header) = Header::parse(rest, self.header.salt) else { return false };
        if header.version != self.next_version || header.chain != self.chain || !header.matches(rest) {
            return false;
        }
        let frame_bytes = header.frame_bytes();
        let (version, salt) = (header.version, self.header.salt);
        let place = FrameLocation { segment: self.header.number, offset: self.offset, frame_bytes, version, salt };
        self.places.push(place);
        self.offset += frame_bytes;
        self.next_version += 1;
        self.chain = header.checksum;
        true
    }

    /// After the last good frame there may be zeros, half a frame, or whatever the file held in an earlier life,
    /// under another salt; but no whole frame that came later.
    fn end_is_torn_at_most(&self, bytes: &[u8], name: &str) -> Result<(), EngineError> {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        for at in (start..bytes.len().saturating_sub(HEADER_BYTES - 1)).step_by(ALIGN) {
            let rest = &bytes[at..];
            let later = Header::parse(rest, self.header.salt)
                .filter(|header| header.version >= self.next_version && header.matches(rest));
            if let Some(header) = later {
                let what =
                    format!("version {} is damaged, and version {} follows it", self.next_version, header.version);
                return Err(corrupt(self.disk, name, self.offset, what));
            }
        }
        Ok(())
    }
}

fn corrupt(disk: &dyn Disk, name: &str, offset: u64, what: impl Into<String>) -> EngineError {
    EngineError::Corrupt { path: disk.path(name), offset, what: what.into() }
}
