//! The highest version that was acknowledged, kept apart from the log.
//!
//! A log that lost its end looks like one whose end was torn. This number tells them apart. It is
//! written after every sync of the log and synced now and then: after a crash of the process it is
//! exact, after a loss of power it may be a moment old, and it is never ahead of the log.

use super::disk::{Disk, DiskFile};
use crate::EngineError;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};
use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "acknowledged";
/// Two slots in two blocks: a torn write harms one of them.
const SLOT_AT: [u64; 2] = [0, 4096];
const SLOT_BYTES: usize = 16;
const FILE_BYTES: usize = 4096 + SLOT_BYTES;

pub(super) struct Watermark {
    file: Arc<dyn DiskFile>,
    /// Where the next note goes: never where the last whole one is.
    next_slot: AtomicUsize,
    noted: AtomicU64,
    synced: AtomicU64,
}

impl Watermark {
    /// The watermark of a new folder, whose state has this version.
    pub(super) fn create(disk: &dyn Disk, version: u64) -> Result<(), EngineError> {
        let write = || -> io::Result<()> {
            let file = disk.create(NAME)?;
            let mut bytes = [0; FILE_BYTES];
            bytes[..SLOT_BYTES].copy_from_slice(&slot(version));
            file.write_all_at(0, &bytes)?;
            file.sync()
        };
        write().map_err(|error| super::log::classify(disk, NAME, "creating", error))
    }

    /// A folder that has none is refused: it could have lost the end of its log, too. A file without a whole slot
    /// is what writes can leave that failed before the power did; then the log alone has to decide.
    pub(super) fn open(disk: &dyn Disk) -> Result<Self, EngineError> {
        let file = disk.open(NAME).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let what = "the watermark of acknowledged versions is missing".to_owned();
                EngineError::Corrupt { path: disk.path(NAME), offset: 0, what }
            }
            _ => super::log::classify(disk, NAME, "opening", error),
        })?;
        let version = read(&*file).map_err(|error| super::log::classify(disk, NAME, "reading", error))?;
        let (version, place) = version.unwrap_or_else(|| {
            tracing::warn!(path = %disk.path(NAME).display(), "the watermark of acknowledged versions is damaged");
            (0, 1)
        });
        let (noted, synced) = (AtomicU64::new(version), AtomicU64::new(version));
        Ok(Self { file, next_slot: AtomicUsize::new(1 - place), noted, synced })
    }

    pub(super) fn version(&self) -> u64 {
        self.noted.load(Relaxed)
    }

    /// Notes that the log is durable up to a version. A failure leaves an older, still true number.
    pub(super) fn note(&self, version: u64) {
        let place = self.next_slot.load(Relaxed);
        match self.file.write_all_at(SLOT_AT[place], &slot(version)) {
            Ok(()) => self.next_slot.store(1 - place, Relaxed),
            // The slot may be half written now. The other one is left alone until this one is whole again.
            Err(error) => tracing::warn!(%error, "the acknowledged version could not be recorded"),
        }
        self.noted.store(version, Relaxed);
    }

    /// Makes the last note durable, if it is not.
    pub(super) fn sync(&self) -> io::Result<()> {
        let noted = self.noted.load(Relaxed);
        if noted != self.synced.load(Relaxed) {
            self.file.sync()?;
            self.synced.store(noted, Relaxed);
        }
        Ok(())
    }
}

fn slot(version: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&version.to_le_bytes());
    slot[8..].copy_from_slice(&xxh3_64(&version.to_le_bytes()).to_le_bytes());
    slot
}

/// The higher of the slots that are whole, and which one it is.
fn read(file: &dyn DiskFile) -> io::Result<Option<(u64, usize)>> {
    let mut highest = None;
    for (place, at) in SLOT_AT.into_iter().enumerate() {
        let mut bytes = [0; SLOT_BYTES];
        if file.read_up_to(at, &mut bytes)? < SLOT_BYTES {
            continue;
        }
        let version = u64::from_le_bytes(std::array::from_fn(|index| bytes[index]));
        if bytes == slot(version) {
            highest = highest.max(Some((version, place)));
        }
    }
    Ok(highest)
}
