//! The commit log: what the sequencer puts out, durable before anyone is told.
//!
//! One frame per group of commits, one write and one sync per frame, in preallocated segments that are
//! reused once the tree has persisted what they hold. See `recover.rs` for what is believed after a crash.

pub(super) mod frame;
mod recover;
mod segment;
#[cfg(test)]
mod tests;

use super::disk::{Disk, DiskFile};
use crate::EngineError;
use bytes::Bytes;
use parking_lot::Mutex;
pub(super) use recover::recover;
use segment::{HEADER_BLOCK, Segment, SegmentHeader};
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// How many empty segments are kept ready.
const SPARES_MAX: usize = 2;

/// Where the log stands. The sequencer appends, the janitor retires; whoever needs two of the locks takes
/// them in the order of the fields.
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    /// Only the sequencer touches it.
    active: Mutex<Active>,
    /// Full segments in order, each with the last version that it holds.
    full: Mutex<VecDeque<(u64, String)>>,
    /// Names of empty segments.
    spares: Mutex<Vec<String>>,
    next_spare: AtomicU64,
}

struct Active {
    segment: Segment,
    /// Where the next frame goes.
    end: u64,
    next_version: u64,
    chain: u64,
    /// A write or sync failed here: what lies at `end` is unknown, and the log goes on in a new segment.
    abandoned: bool,
}

/// A frame that could not be made durable.
#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing of it was written.
    NotWritten(EngineError),
    /// It may have been written, wholly or not.
    Unknown(EngineError),
}

impl Log {
    /// The log of a new folder, whose first frame will have `first_version`.
    pub(super) fn create(disk: Arc<dyn Disk>, segment_bytes: u64, first_version: u64) -> Result<Self, EngineError> {
        let header = SegmentHeader { number: 1, first_version, chain: 0 };
        let name = segment::name(1);
        let start = || -> io::Result<Segment> {
            let spare = segment::spare_name(1);
            if disk.list()?.contains(&spare) {
                disk.remove(&spare)?; // left by a creation that was interrupted
            }
            let file = segment::preallocate(&*disk, &spare, segment_bytes)?;
            put_in_service(&*disk, &spare, &name, &*file, header)?;
            Ok(Segment { header, file, len: segment_bytes })
        };
        let segment = start().map_err(|error| classify(&*disk, &name, "creating the log", error))?;
        Ok(Self::resume(disk, segment_bytes, segment, HEADER_BLOCK, first_version, 0, VecDeque::new(), Vec::new()))
    }

    #[expect(clippy::too_many_arguments, reason = "private: the two ways to come by a log fill in all of it")]
    fn resume(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        segment: Segment,
        end: u64,
        next_version: u64,
        chain: u64,
        full: VecDeque<(u64, String)>,
        spares: Vec<String>,
    ) -> Self {
        let highest_spare = spares.iter().filter_map(|name| segment::spare_number(name)).max().unwrap_or(0);
        let next_spare = AtomicU64::new(highest_spare.max(segment.header.number) + 1);
        let active = Mutex::new(Active { segment, end, next_version, chain, abandoned: false });
        Self { disk, segment_bytes, active, full: Mutex::new(full), spares: Mutex::new(spares), next_spare }
    }

    pub(super) fn next_version(&self) -> u64 {
        self.active.lock().next_version
    }

    /// Writes and syncs one frame. `build` gets the version and the chain, and returns frame and checksum.
    pub(super) fn append(&self, build: impl FnOnce(u64, u64) -> (Bytes, u64)) -> Result<Bytes, AppendError> {
        let mut active = self.active.lock();
        let (frame, checksum) = build(active.next_version, active.chain);
        let frame_bytes = frame.len() as u64;
        if active.abandoned || active.end + frame_bytes > active.segment.len {
            self.next_segment(&mut active, frame_bytes).map_err(AppendError::NotWritten)?;
        }
        let file = &active.segment.file;
        let written = file.write_all_at(active.end, &frame).and_then(|()| file.sync());
        if let Err(error) = written {
            active.abandoned = true;
            let name = segment::name(active.segment.header.number);
            return Err(AppendError::Unknown(classify(&*self.disk, &name, "writing the log", error)));
        }
        active.end += frame_bytes;
        active.next_version += 1;
        active.chain = checksum;
        Ok(frame)
    }

    /// Goes on in another segment, with room for a frame of this size.
    fn next_segment(&self, active: &mut Active, frame_bytes: u64) -> Result<(), EngineError> {
        let header = SegmentHeader {
            number: active.segment.header.number + 1,
            first_version: active.next_version,
            chain: active.chain,
        };
        let name = segment::name(header.number);
        let failed = |error| classify(&*self.disk, &name, "beginning a log segment", error);
        let len = self.segment_bytes.max(HEADER_BLOCK + frame_bytes);
        let spare = if len == self.segment_bytes { self.spares.lock().pop() } else { None };
        let (spare, file) = match spare {
            Some(spare) => (spare.clone(), self.disk.open(&spare).map_err(failed)?),
            None => {
                let spare = self.new_spare_name();
                (spare.clone(), segment::preallocate(&*self.disk, &spare, len).map_err(failed)?)
            }
        };
        if let Err(error) = put_in_service(&*self.disk, &spare, &name, &*file, header) {
            // Whether the new name stuck is unknown. So nothing more goes into the old segment, not even a
            // frame that would fit: recovery might take the new one for its successor.
            active.abandoned = true;
            if self.disk.open(&spare).is_ok() {
                self.spares.lock().push(spare);
            }
            return Err(failed(error));
        }
        let before = std::mem::replace(&mut active.segment, Segment { header, file, len });
        active.end = HEADER_BLOCK;
        active.abandoned = false;
        self.full.lock().push_back((header.first_version - 1, segment::name(before.header.number)));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn full_segments(&self) -> usize {
        self.full.lock().len()
    }

    /// Takes back the segments that hold nothing above `persisted`.
    pub(super) fn retire(&self, persisted: u64) -> io::Result<()> {
        loop {
            // No lock is held during disk calls: the sequencer must never wait for the janitor's.
            let front = self.full.lock().front().cloned();
            let Some((_, name)) = front.filter(|(last, _)| *last <= persisted) else { return Ok(()) };
            self.retire_one(&name)?;
            self.full.lock().pop_front();
        }
    }

    fn new_spare_name(&self) -> String {
        segment::spare_name(self.next_spare.fetch_add(1, Relaxed))
    }

    fn retire_one(&self, name: &str) -> io::Result<()> {
        let len = match self.disk.open(name) {
            Ok(file) => file.len()?,
            // An earlier attempt came as far as the sync. As a spare it is found when the folder is next opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.disk.sync_folder(),
            Err(error) => return Err(error),
        };
        if len != self.segment_bytes || self.spares.lock().len() >= SPARES_MAX {
            self.disk.remove(name)?;
            return self.disk.sync_folder();
        }
        let spare = self.new_spare_name();
        self.disk.rename(name, &spare)?;
        // Durable before it is written to: else a crash could leave the new content under the old name.
        self.disk.sync_folder()?;
        self.spares.lock().push(spare);
        Ok(())
    }

    /// Makes sure that a spare segment is ready, so that the sequencer need not fill one with zeros.
    pub(super) fn prepare_spare(&self) -> io::Result<()> {
        if !self.spares.lock().is_empty() {
            return Ok(());
        }
        let spare = self.new_spare_name();
        segment::preallocate(&*self.disk, &spare, self.segment_bytes)?;
        self.spares.lock().push(spare);
        Ok(())
    }
}

/// Writes the header into a spare, and only then gives it the name of a segment.
fn put_in_service(
    disk: &dyn Disk,
    spare: &str,
    name: &str,
    file: &dyn DiskFile,
    header: SegmentHeader,
) -> io::Result<()> {
    file.write_all_at(0, &header.to_bytes())?;
    file.sync()?;
    disk.rename(spare, name)?;
    disk.sync_folder()
}

/// Tells a full disk from any other failure.
pub(super) fn classify(disk: &dyn Disk, name: &str, doing: &str, error: io::Error) -> EngineError {
    let path = disk.path(name);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            EngineError::DiskFull(Arc::new(error))
        }
        io::ErrorKind::PermissionDenied => EngineError::FolderDenied(path),
        _ => EngineError::failed(format!("{doing} {}", path.display()), error),
    }
}
