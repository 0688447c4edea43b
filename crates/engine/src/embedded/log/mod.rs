//! The commit log: the sequencer's commit groups, durable before any commit is answered.
//!
//! One frame per group of commits, one write and one sync per frame, in preallocated segments that are
//! reused once the tree has persisted what they hold. See `recover.rs` for recovery after a crash.

pub(super) mod frame;
mod recover;
mod segment;
#[cfg(test)]
mod tests;

use super::disk::{Disk, DiskFile};
use crate::EngineError;
use bytes::Bytes;
use frame::FramePlace;
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

/// How many empty segments are kept: as many as are written while a memory table fills up, so that none is filled with zeros
/// twice.
const SPARES_MAX: usize = 4;

/// Where the log stands. The sequencer appends, the janitor retires; a thread that needs two of the locks takes
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
    /// A write or sync failed here: what lies at `end` is unknown, and the log continues in a new segment.
    abandoned: bool,
}

impl Active {
    /// Where the next frame will stand.
    fn place(&self) -> FramePlace {
        FramePlace { version: self.next_version, chain: self.chain, salt: self.segment.header.salt }
    }
}

/// A frame that knows its place.
pub(super) struct Prepared {
    pub(super) frame: Bytes,
    checksum: u64,
}

impl Log {
    /// The log of a new folder, whose first frame will have `first_version`.
    pub(super) fn create(disk: Arc<dyn Disk>, segment_bytes: u64, first_version: u64) -> Result<Self, EngineError> {
        let header = SegmentHeader { number: 1, first_version, chain: 0, salt: segment::fresh_salt() };
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

    /// Makes room for the next frame. `build` is told where it stands, and returns frame and checksum; it is asked
    /// again if the frame has to go into another segment. Nothing of it is written.
    pub(super) fn prepare(&self, build: impl Fn(FramePlace) -> (Bytes, u64)) -> Result<Prepared, EngineError> {
        let mut active = self.active.lock();
        let (mut frame, mut checksum) = build(active.place());
        if frame.len() > frame::HEADER_BYTES + frame::PAYLOAD_BYTES_MAX {
            return Err(EngineError::TransactionTooLarge);
        }
        let frame_bytes = frame.len() as u64;
        if active.abandoned || active.end + frame_bytes > active.segment.len {
            self.next_segment(&mut active, frame_bytes)?;
            (frame, checksum) = build(active.place());
        }
        Ok(Prepared { frame, checksum })
    }

    /// Writes and syncs the frame that was just prepared. After an error it may have been written, wholly or not.
    pub(super) fn append(&self, Prepared { frame, checksum }: Prepared) -> Result<(), EngineError> {
        let mut active = self.active.lock();
        if let Err(error) = active.segment.file.append(active.end, &frame) {
            active.abandoned = true;
            let name = segment::name(active.segment.header.number);
            return Err(classify(&*self.disk, &name, "writing the log", error));
        }
        active.end += frame.len() as u64;
        active.next_version += 1;
        active.chain = checksum;
        Ok(())
    }

    /// Goes on in another segment, with room for a frame of this size.
    fn next_segment(&self, active: &mut Active, frame_bytes: u64) -> Result<(), EngineError> {
        let header = SegmentHeader {
            number: active.segment.header.number + 1,
            first_version: active.next_version,
            chain: active.chain,
            salt: segment::fresh_salt(),
        };
        let name = segment::name(header.number);
        let failed = |error| classify(&*self.disk, &name, "beginning a log segment", error);
        let len = self.segment_bytes.max((HEADER_BLOCK + frame_bytes).next_multiple_of(HEADER_BLOCK));
        let ready = if len == self.segment_bytes { self.take_spare() } else { None };
        let (spare, file) = match ready {
            Some(ready) => ready,
            None => {
                let spare = self.new_spare_name();
                let file = segment::preallocate(&*self.disk, &spare, len).map_err(failed)?;
                (spare, file)
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

    /// A spare that can be opened and has the right size. One of another size was left by other settings, and goes.
    fn take_spare(&self) -> Option<(String, Arc<dyn DiskFile>)> {
        loop {
            let spare = self.spares.lock().pop()?;
            let Ok(file) = self.disk.open(&spare) else { continue };
            match file.len() {
                Ok(len) if len == self.segment_bytes => return Some((spare, file)),
                _ => drop(self.disk.remove(&spare)),
            }
        }
    }

    /// Makes durable what recovery has read: after a process crashed, its last frame and the newest names may be
    /// in the page cache only, and even a frame whose sync failed reads as if it were there.
    pub(super) fn settle(&self, last_frame: Option<&Bytes>) -> Result<(), EngineError> {
        let active = self.active.lock();
        let name = segment::name(active.segment.header.number);
        let write = || -> io::Result<()> {
            if let Some(frame) = last_frame {
                active.segment.file.write_all_at(active.end - frame.len() as u64, frame)?;
            }
            active.segment.file.sync()?;
            self.disk.sync_folder()
        };
        write().map_err(|error| classify(&*self.disk, &name, "syncing the log", error))
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
        // SyncedGroup before it is written to: else a crash could leave the new content under the old name.
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
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => EngineError::FolderDenied(path),
        _ => EngineError::failed(format!("{doing} {}", path.display()), error),
    }
}
