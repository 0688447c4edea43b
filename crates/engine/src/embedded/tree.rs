//! All keys and their recent versions: in runs in memory, and in the sorted files of `lsm-tree`, which has no log of its own.
//!
//! `lsm-tree` gives every change a sequence number, and also every change of its set of files. The number
//! of a frame is therefore drawn when it is shown, under one lock: a reader's snapshot is the number
//! after the last frame that was shown, whatever the files do in between.
//!
//! The tree's own memory tables stay empty: to put a key into their skip list took as long as all else that a commit needs.

use super::{
    log::frame,
    memtable::{Entry, Memtable, Merge, Merged, Run, run_of},
    snapshots::Snapshot,
};
use crate::{EngineError, recent::Writes};
use bytes::Bytes;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, InternalValue, SequenceNumberCounter, ValueType,
    compaction::Leveled, config::CompressionPolicy,
};
use parking_lot::{Mutex, RwLock, RwLockUpgradableReadGuard};
use std::{
    cmp::Ordering,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Files of this size, and sixteen of them in the first level: what is new is merged with little that is old. With files of 64 MiB
/// it was merged with up to 256 MiB, and a call wrote a third more.
const TABLE_BYTES: u64 = 4 << 20;
/// Memory tables that were written wait until there are so many, and are merged together. Who scans looks into each of them.
const UNMERGED_MAX: u8 = 16;

/// Files are merged to get space back if at least one entry in so many is a deletion.
const DELETIONS_ONE_IN: u64 = 16;

/// Under this key the tree keeps the version of the log up to which it is complete. Layers cannot reach it.
const APPLIED_KEY: &[u8] = b"\xffapplied";

pub(super) struct Tree {
    tree: AnyTree,
    path: PathBuf,
    seqno: SequenceNumberCounter,
    state: RwLock<State>,
    /// Held by who merges runs: what one has begun, another would make worthless.
    merging: Mutex<()>,
}

/// The writer decides what comes next: a frame, or a fresh memory table.
struct State {
    /// The last frame that was shown.
    version: u64,
    /// Readers hold what they look into.
    memory: Arc<Memory>,
}

/// The runs in memory that readers look into before the files, the oldest first.
#[derive(Clone, Default)]
struct Memory {
    /// The runs that are in files, with the number from which on snapshots see those.
    written: Vec<(u64, Arc<Sealed>)>,
    /// The runs that wait to be written.
    sealed: Vec<Arc<Sealed>>,
    /// The run that takes the next group.
    open: Memtable,
}

struct Sealed {
    /// With it, files are complete up to this version.
    version: u64,
    runs: Memtable,
}

impl Memory {
    /// Those that a snapshot needs.
    fn tables(&self, seqno: u64) -> impl DoubleEndedIterator<Item = &Memtable> {
        let written = self.written.iter().filter(move |(since, _)| seqno < *since).map(|(_, table)| table);
        written.chain(&self.sealed).map(|table| &table.runs).chain([&self.open])
    }
}

impl Tree {
    /// Whether there is one in the folder.
    pub(super) fn exists(path: &Path) -> bool {
        path.join("current").exists()
    }

    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, EngineError> {
        let seqno = SequenceNumberCounter::default();
        let config = Config::new(path, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4));
        let tree = guarded(path, || config.open())?;
        seqno.set(tree.get_highest_persisted_seqno().unwrap_or(0) + 1);
        let state = RwLock::new(State { version: 0, memory: Arc::default() });
        let mut opened = Self { tree, path: path.to_owned(), seqno, state, merging: Mutex::new(()) };
        opened.state.get_mut().version = opened.persisted_version()?;
        Ok(opened)
    }

    fn persisted_version(&self) -> Result<u64, EngineError> {
        let stored = guarded(&self.path, || self.tree.get(APPLIED_KEY, self.seqno.get()))?;
        let version = stored.as_deref().and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        Ok(version.unwrap_or(0))
    }

    /// The newest state.
    pub(super) fn newest(&self) -> Snapshot {
        let state = self.state.read();
        Snapshot { version: state.version, seqno: self.seqno.get() }
    }

    /// Takes in a group, which is the newest version from now on. Returns the state after it, and what it has become.
    pub(super) fn show(&self, version: u64, writes: Writes, frame_bytes: usize) -> (Snapshot, Arc<Run>) {
        let mut run = run_of(writes, 0);
        let mut state = self.state.write();
        let seqno = self.seqno.next();
        run.iter_mut().for_each(|entry| entry.seqno = seqno);
        let run = Arc::new(run);
        Arc::make_mut(&mut state.memory).open.push(run.clone(), frame_bytes);
        state.version = version;
        (Snapshot { version, seqno: self.seqno.get() }, run)
    }

    /// Merges the last groups, if they are small and nobody merges. What no snapshot from `oldest` on can see goes.
    pub(super) fn merge_small(&self, oldest: impl Fn() -> u64) {
        let Some(_merging) = self.merging.try_lock() else { return };
        while let Some(merge) = self.next_merge(Memtable::small) {
            self.merge(&merge, oldest());
        }
    }

    /// Merges what has piled up in memory.
    pub(super) fn merge_many(&self, oldest: u64) {
        let _merging = self.merging.lock();
        if let Some(merge) = self.next_merge(Memtable::many) {
            self.merge(&merge, oldest);
        }
    }

    fn next_merge(&self, of: impl Fn(&Memtable) -> Option<Merge>) -> Option<Merge> {
        of(&self.state.read().memory.open)
    }

    fn merge(&self, merge: &Merge, oldest: u64) {
        let merged = merge.run(oldest);
        Arc::make_mut(&mut self.state.write().memory).open.replace(merge, &merged);
    }

    fn memory(&self) -> Arc<Memory> {
        self.state.read().memory.clone()
    }

    /// Applies a frame. Nobody reads an older state.
    pub(super) fn apply(&self, version: u64, frame: &Bytes) {
        self.show(version, frame::writes(frame), frame.len());
        self.merge_small(|| self.seqno.get());
    }

    /// Takes in a part of a state, writes it to files and merges them; counts its keys.
    pub(super) fn fill(&self, part: &Bytes) -> Result<u64, EngineError> {
        let writes = frame::writes(part);
        let keys = writes.len() as u64;
        let version = self.newest().version;
        self.show(version, writes, part.len());
        // Without a note of how far it goes: parts do not overlap, and so their files need not be merged.
        self.seal(&mut self.state.write(), false);
        self.flush_all()?;
        loop {
            let shape = self.shape();
            self.compact(self.seqno.get())?;
            if self.shape() == shape {
                return Ok(keys);
            }
        }
    }

    /// The state is complete, and is that of this version.
    pub(super) fn filled(&self, version: u64) -> Result<(), EngineError> {
        let mut state = self.state.write();
        state.version = version;
        self.seal(&mut state, true);
        drop(state);
        self.flush_all()
    }

    /// Writes what is sealed to files, and lets go of it. Nobody reads an older state.
    pub(super) fn flush_all(&self) -> Result<(), EngineError> {
        self.flush(self.seqno.get())?;
        self.let_go(self.seqno.get());
        Ok(())
    }

    pub(super) fn get(&self, key: &[u8], seqno: u64) -> Result<Option<Bytes>, EngineError> {
        if let Some(found) = self.memory().tables(seqno).rev().find_map(|table| table.get(key, seqno)) {
            return Ok(found);
        }
        let found = guarded(&self.path, || self.tree.get(key, seqno))?;
        Ok(found.map(Bytes::from))
    }

    pub(super) fn range(
        &self,
        start: &Bytes,
        end: &Bytes,
        reverse: bool,
        seqno: u64,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), EngineError>> + use<> {
        // Memory before files: what moves from the one to the other meanwhile is seen twice, not missed.
        let in_memory = Merged::range(self.memory().tables(seqno), start, end, reverse);
        let mut in_memory = in_memory.held(seqno).peekable();
        let mut in_files = self.range_of_files(start, end, reverse, seqno).peekable();
        std::iter::from_fn(move || {
            loop {
                let order = match (in_memory.peek(), in_files.peek()) {
                    (Some((one, _)), Some(Ok((other, _)))) if reverse => other.cmp(one),
                    (Some((one, _)), Some(Ok((other, _)))) => one.cmp(other),
                    (Some(_), None) => Ordering::Less,
                    (_, None | Some(_)) => return in_files.next(),
                };
                if order.is_gt() {
                    return in_files.next();
                }
                if order.is_eq() {
                    in_files.next(); // memory is newer
                }
                if let (key, Some(value)) = in_memory.next()? {
                    return Some(Ok((key, value)));
                }
            }
        })
    }

    fn range_of_files(
        &self,
        start: &Bytes,
        end: &Bytes,
        reverse: bool,
        seqno: u64,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), EngineError>> + use<> {
        let path = self.path.clone();
        let open = || (start < end).then(|| self.tree.range::<&[u8], _>(&start[..]..&end[..], seqno, None));
        let (items, mut failed) = match guarded(&path, || Ok(open())) {
            Ok(items) => (items, None),
            Err(error) => (None, Some(error)),
        };
        let mut items = items.into_iter().flatten();
        std::iter::from_fn(move || {
            if let Some(error) = failed.take() {
                return Some(Err(error));
            }
            let item = guarded(&path, || {
                let item = if reverse { items.next_back() } else { items.next() };
                item.map(Guard::into_inner).transpose()
            });
            item.map(|item| item.map(|(key, value)| (Bytes::from(key), Bytes::from(value)))).transpose()
        })
    }

    /// A typed error where the disk has less room than this.
    pub(super) fn require_room(&self, bytes: u64) -> Result<(), EngineError> {
        let disk = rustix::fs::statvfs(&self.path).map_err(|error| {
            EngineError::failed(format!("asking {} for its room", self.path.display()), std::io::Error::from(error))
        })?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < bytes {
            return Err(EngineError::DiskFull(Arc::new(std::io::ErrorKind::StorageFull.into())));
        }
        Ok(())
    }

    /// About what a merge writes at most before it can let go of anything: the first level, and the memory tables of this size that
    /// are merged into it.
    pub(super) fn merged_bytes_max(&self, memtable_bytes: u64) -> u64 {
        self.tree.disk_space().min(u64::from(UNMERGED_MAX) * (TABLE_BYTES + memtable_bytes))
    }

    /// Whether [`Self::merge_many`] has work.
    pub(super) fn has_many(&self) -> bool {
        self.state.read().memory.open.are_many()
    }

    pub(super) fn sealed_memtables(&self) -> usize {
        self.state.read().memory.sealed.len()
    }

    /// How many sorted runs a read has to look through before it reaches the leveled part.
    pub(super) fn unsorted_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// Closes the memory table if it has so many bytes, and says whether it had.
    pub(super) fn seal_if_large(&self, bytes_min: u64) -> bool {
        let state = self.state.upgradable_read(); // by one at a time
        if (state.memory.open.bytes() as u64) < bytes_min {
            return false;
        }
        self.seal(&mut RwLockUpgradableReadGuard::upgrade(state), true);
        true
    }

    /// Closes the memory table, with a note of how far it goes.
    fn seal(&self, state: &mut State, noted: bool) {
        let version = state.version;
        let memory = Arc::make_mut(&mut state.memory);
        let mut runs = std::mem::take(&mut memory.open);
        if noted {
            let (key, value) = (Bytes::from_static(APPLIED_KEY), Bytes::copy_from_slice(&version.to_be_bytes()));
            runs.push(Arc::new(vec![Entry { key, seqno: self.seqno.next(), value: Some(value) }]), 0);
        }
        memory.sealed.push(Arc::new(Sealed { version, runs }));
    }

    /// Writes closed memory tables to files, if there are any, and says up to which version the files are complete. Only one thread
    /// does this.
    pub(super) fn flush(&self, oldest: u64) -> Result<Option<u64>, EngineError> {
        let sealed = self.memory().sealed.clone();
        let Some(version) = sealed.last().map(|table| table.version) else { return Ok(None) };
        let entries = Merged::all(sealed.iter().map(|table| &table.runs)).still_seen(oldest);
        let items = entries.map(|Entry { key, seqno, value }| {
            Ok(match value {
                Some(value) => InternalValue::from_components(key, value, seqno, ValueType::Value),
                None => InternalValue::new_tombstone(key, seqno),
            })
        });
        guarded(&self.path, || match self.tree.flush_to_tables(items)? {
            Some((files, _)) => self.tree.register_tables(&files, None, None, &[], oldest),
            None => Ok(()),
        })?;
        let mut state = self.state.write();
        let since = self.seqno.get();
        let memory = Arc::make_mut(&mut state.memory);
        memory.written.extend(memory.sealed.drain(..sealed.len()).map(|table| (since, table)));
        Ok(Some(version))
    }

    /// Whether something is in memory that files could answer for, if nobody read an older state.
    pub(super) fn keeps_written(&self) -> bool {
        !self.state.read().memory.written.is_empty()
    }

    /// Forgets what files answer for in every snapshot from `oldest` on.
    pub(super) fn let_go(&self, oldest: u64) {
        if !self.keeps_written() {
            return;
        }
        let mut state = self.state.write();
        let memory = Arc::make_mut(&mut state.memory);
        let gone: Vec<_> = memory.written.extract_if(.., |(since, _)| *since <= oldest).collect();
        drop(state);
        drop(gone); // this may take long; who still reads in it does it then
    }

    /// Merges files, if there is reason to.
    pub(super) fn compact(&self, oldest_seqno: u64) -> Result<(), EngineError> {
        let strategy = Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(UNMERGED_MAX);
        self.tree.compact(Arc::new(strategy), oldest_seqno).map_err(|error| tree_error(&self.path, error))
    }

    /// One step towards files without deleted keys, if enough of what is in files is deletions; `false` if no step is left.
    ///
    /// A deletion takes its key's old value out of the files when the two meet in a merge. Merges happen where levels are too
    /// large, so a deletion may lie above what it deletes for as long as little is written. Each step here merges a part of a
    /// level into the next one, whatever their sizes, until the last level has all. What may stay above it is one file at most;
    /// if that is still much of the whole, the whole is small, and is merged at once.
    pub(super) fn reclaim(&self, oldest_seqno: u64) -> Result<bool, EngineError> {
        if !self.has_many_deletions() {
            return Ok(false);
        }
        let downwards = Leveled::default()
            .with_table_target_size(TABLE_BYTES)
            .with_l0_threshold(1)
            .with_level_ratio_policy(vec![0.0]);
        let shape = self.shape();
        guarded(&self.path, || self.tree.compact(Arc::new(downwards), oldest_seqno))?;
        if self.shape() != shape {
            return Ok(true);
        }
        if self.has_many_deletions() {
            guarded(&self.path, || self.tree.major_compact(TABLE_BYTES, oldest_seqno))?;
        }
        Ok(false)
    }

    fn has_many_deletions(&self) -> bool {
        let (deletions, entries) = (self.tree.tombstone_count(), self.tree.approximate_len() as u64);
        deletions > 0 && deletions.saturating_mul(DELETIONS_ONE_IN) >= entries
    }

    /// Anything that changes when a compaction did something.
    pub(super) fn shape(&self) -> (usize, usize, u64) {
        (self.tree.table_count(), self.tree.l0_run_count(), self.tree.disk_space())
    }
}

/// The tree checks its blocks by checksums, and asserts the rest: a file that is damaged just so makes it
/// panic. For us both are the same.
fn guarded<T>(path: &Path, call: impl FnOnce() -> lsm_tree::Result<T>) -> Result<T, EngineError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.map_err(|error| tree_error(path, error)),
        Err(_) => {
            let what = "a file of the tree: it is not what was written".to_owned();
            Err(EngineError::Corrupt { path: path.to_owned(), offset: 0, what })
        }
    }
}

fn tree_error(path: &Path, error: lsm_tree::Error) -> EngineError {
    match error {
        lsm_tree::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                EngineError::DiskFull(Arc::new(error))
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                EngineError::FolderDenied(path.to_owned())
            }
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::NotFound => {
                EngineError::Corrupt { path: path.to_owned(), offset: 0, what: format!("a file of the tree: {error}") }
            }
            _ => EngineError::failed(format!("reading or writing {}", path.display()), error),
        },
        damage => {
            EngineError::Corrupt { path: path.to_owned(), offset: 0, what: format!("a file of the tree: {damage}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(key: &'static str, value: &'static str) -> Writes {
        vec![(Bytes::from(key), Some(Bytes::from(value)))]
    }

    fn tree(folder: &Path) -> Tree {
        Tree::open(folder, 1 << 20).unwrap()
    }

    #[test]
    fn what_is_in_files_stays_in_memory_as_long_as_a_snapshot_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let (early, _) = tree.show(1, writes("key", "early"), 0);
        let (late, _) = tree.show(2, writes("key", "late"), 0);
        assert!(tree.seal_if_large(0));
        assert_eq!(tree.flush(early.seqno).unwrap(), Some(2));
        let key = &b"key"[..];
        let all = |at: Snapshot| tree.range(&Bytes::new(), &Bytes::from_static(b"\xff"), false, at.seqno);
        for (oldest, kept) in [(early, true), (late, true), (tree.newest(), false)] {
            tree.let_go(oldest.seqno);
            assert_eq!(tree.keeps_written(), kept);
            if kept {
                assert_eq!(tree.get(key, late.seqno).unwrap().unwrap(), "late");
            }
        }
        let newest = tree.newest();
        assert_eq!(tree.get(key, newest.seqno).unwrap().unwrap(), "late");
        assert_eq!(all(newest).map(|item| item.unwrap().1).collect::<Vec<_>>(), ["late"], "and no note of ours");
    }

    #[test]
    fn an_old_snapshot_finds_in_memory_what_its_files_do_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let (early, _) = tree.show(1, writes("key", "early"), 0);
        tree.seal_if_large(0);
        tree.flush(early.seqno).unwrap();
        tree.let_go(early.seqno);
        assert_eq!(tree.get(b"key", early.seqno).unwrap().unwrap(), "early");
        let (hidden, _) = tree.show(2, vec![(Bytes::from("key"), None)], 0);
        assert_eq!(tree.get(b"key", hidden.seqno).unwrap(), None, "memory hides what lies in files");
        let items = tree.range(&Bytes::new(), &Bytes::from_static(b"\xff"), true, hidden.seqno);
        assert_eq!(items.count(), 0);
    }

    #[test]
    fn a_table_counts_the_frames_that_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        tree.show(1, writes("key", "value"), 1_000);
        assert!(!tree.seal_if_large(2_000));
        tree.show(2, writes("key", "value"), 1_000);
        tree.merge_many(u64::MAX);
        assert!(tree.seal_if_large(2_000) && !tree.seal_if_large(2_000));
        assert_eq!(tree.sealed_memtables(), 1);
    }
}
