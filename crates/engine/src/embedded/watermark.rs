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
        atomic::{AtomicU64, Ordering::Relaxed},
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
    noted: AtomicU64,
    synced: AtomicU64,
}

impl Watermark {
    pub(super) fn open(disk: &dyn Disk) -> Result<Self, EngineError> {
        let failed = |error| super::log::classify(disk, NAME, "opening", error);
        let exists = disk.list().map_err(failed)?.iter().any(|name| name == NAME);
        let file = if exists { disk.open(NAME) } else { disk.create(NAME) }.map_err(failed)?;
        if !exists {
            file.write_all_at(0, &[0; FILE_BYTES]).map_err(failed)?;
            file.sync().map_err(failed)?;
        }
        let version = read(&*file).map_err(failed)?;
        Ok(Self { file, noted: AtomicU64::new(version), synced: AtomicU64::new(version) })
    }

    pub(super) fn version(&self) -> u64 {
        self.noted.load(Relaxed)
    }

    /// Notes that the log is durable up to a version. A failure leaves an older, still true number.
    pub(super) fn note(&self, version: u64) {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&version.to_le_bytes());
        slot[8..].copy_from_slice(&xxh3_64(&version.to_le_bytes()).to_le_bytes());
        let at = SLOT_AT[usize::from(version % 2 == 1)];
        if let Err(error) = self.file.write_all_at(at, &slot) {
            tracing::warn!(%error, "noting the acknowledged version failed");
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

/// The higher of the slots that are whole; zero for a new file.
fn read(file: &dyn DiskFile) -> io::Result<u64> {
    let mut highest = 0;
    for at in SLOT_AT {
        let mut slot = [0; SLOT_BYTES];
        if file.read_up_to(at, &mut slot)? < SLOT_BYTES {
            continue;
        }
        let (version, checksum) = slot.split_at(8);
        if xxh3_64(version).to_le_bytes() == checksum {
            highest = version.try_into().map(u64::from_le_bytes).unwrap_or(0).max(highest);
        }
    }
    Ok(highest)
}
