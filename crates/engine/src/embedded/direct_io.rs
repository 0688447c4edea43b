//! Appending past the page cache.
//!
//! A sync of pages that were just written through the cache costs the kernel a walk over them, and about twice the
//! time of a write that goes to the device at once. Such a write begins and ends at a block: the block that the last
//! append left half full is written again, as the page cache would do, too.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// The block size that every device can write.
const BLOCK: usize = 4096;
/// Larger appends go in pieces.
const STAGE_BYTES: usize = 64 * BLOCK;

pub(super) struct DirectFile {
    file: File,
    /// One block more than is used, so that the used part can begin where a block would.
    stage: Vec<u8>,
    /// Where the last append ended.
    end: Option<u64>,
    /// The contents of the block before that end.
    tail: Vec<u8>,
}

impl DirectFile {
    /// `None` where the file system cannot.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        Some(Self { file, stage: Vec::new(), end: None, tail: Vec::new() })
    }

    /// Writes the bytes, zeros up to the next block, and syncs. `cached` is the same file by the usual way.
    pub(super) fn append(&mut self, cached: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let lead = usize::try_from(offset % BLOCK as u64).unwrap_or(0);
        if self.end.take() != Some(offset) {
            self.tail.resize(lead, 0);
            cached.read_exact_at(&mut self.tail, offset - lead as u64)?;
        }
        self.stage.resize(STAGE_BYTES + BLOCK, 0);
        let aligned = self.stage.as_ptr().align_offset(BLOCK).min(BLOCK);
        let stage = &mut self.stage[aligned..aligned + STAGE_BYTES];

        let (mut at, mut rest) = (offset - lead as u64, bytes);
        while !rest.is_empty() {
            let held = self.tail.len();
            let (now, later) = rest.split_at(rest.len().min(STAGE_BYTES - held));
            let filled = held + now.len();
            let whole = filled.next_multiple_of(BLOCK);
            stage[..held].copy_from_slice(&self.tail);
            stage[held..filled].copy_from_slice(now);
            stage[filled..whole].fill(0);
            self.file.write_all_at(&stage[..whole], at)?;
            let kept = filled - filled % BLOCK;
            self.tail.clear();
            self.tail.extend_from_slice(&stage[kept..filled]);
            (at, rest) = (at + kept as u64, later);
        }
        self.file.sync_data()?;
        self.end = Some(offset + bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn appends_of_any_size_join(first in 0..3 * BLOCK, sizes in prop::collection::vec(1..2 * STAGE_BYTES, 1..5)) {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("file");
            let mut expected = vec![9; first];
            fs::write(&path, &expected)?;
            let cached = OpenOptions::new().read(true).write(true).open(&path)?;
            let Some(mut direct) = DirectFile::open(&path) else { return Ok(()) };
            for (number, bytes) in (0u8..).zip(sizes) {
                let added = vec![number; bytes];
                direct.append(&cached, expected.len() as u64, &added)?;
                expected.extend(added);
                let mut held = fs::read(&path)?;
                prop_assert!(held[expected.len()..].iter().all(|byte| *byte == 0));
                held.truncate(expected.len());
                prop_assert!(held == expected);
            }
        }
    }
}
