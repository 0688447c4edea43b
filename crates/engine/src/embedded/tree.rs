//! The tree: all keys and their recent versions, in memory and in sorted files. It has no log of its own.
//!
//! `lsm-tree` gives every change a sequence number, and also every change of its set of files. The number
//! of a frame is therefore drawn when it is applied, under one lock: a reader's snapshot is the number
//! after the last frame that was applied whole, whatever the tree does in between.

use super::{log::frame, snapshots::Snapshot};
use crate::{EngineError, recent::Writes};
use bytes::Bytes;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, InternalValue, SequenceNumberCounter, ValueType,
    compaction::Leveled, config::CompressionPolicy,
};
use parking_lot::Mutex;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Files of this size, and sixteen of them in the first level: what is new is merged with little that is old. With files of 64 MiB
/// it was merged with up to 256 MiB, and a call wrote a third more.
const TABLE_BYTES: u64 = 4 << 20;
/// Memory tables that were written wait until there are so many, and are merged together. Who scans looks into each of them.
const UNMERGED_MAX: u8 = 16;

/// Under this key the tree keeps the version of the log up to which it is complete. Layers cannot reach it.
const APPLIED_KEY: &[u8] = b"\xffapplied";

pub(super) struct Tree {
    tree: AnyTree,
    path: PathBuf,
    seqno: SequenceNumberCounter,
    order: Mutex<Order>,
}

/// Who holds it decides what comes next: a frame, or a fresh memory table.
struct Order {
    /// The last frame that was shown.
    version: u64,
    /// A frame is in the tree that nobody may see yet.
    staged: bool,
    /// The last frame in a memory table that waits to be written to a file.
    sealed_version: u64,
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
        let mut opened = Self {
            tree,
            path: path.to_owned(),
            seqno,
            order: Mutex::new(Order { version: 0, staged: false, sealed_version: 0 }),
        };
        let version = opened.persisted_version()?;
        *opened.order.get_mut() = Order { version, staged: false, sealed_version: version };
        Ok(opened)
    }

    fn persisted_version(&self) -> Result<u64, EngineError> {
        let stored = self.get(APPLIED_KEY, self.seqno.get())?;
        let version = stored.as_deref().and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        Ok(version.unwrap_or(0))
    }

    /// The newest state.
    pub(super) fn newest(&self) -> Snapshot {
        let order = self.order.lock();
        Snapshot { version: order.version, seqno: self.seqno.get() }
    }

    /// The newest state, if no frame is in the tree that must not be seen.
    pub(super) fn newest_unless_staged(&self) -> Option<Snapshot> {
        let order = self.order.lock();
        (!order.staged).then(|| Snapshot { version: order.version, seqno: self.seqno.get() })
    }

    /// Takes in a group that is not to be seen yet.
    pub(super) fn stage(&self, writes: &Writes) {
        let mut order = self.order.lock();
        order.staged = true;
        self.insert(writes.iter().cloned());
    }

    /// The staged group is the newest version from now on. Returns the state after it.
    pub(super) fn show(&self, version: u64) -> Snapshot {
        let mut order = self.order.lock();
        (order.version, order.staged) = (version, false);
        Snapshot { version, seqno: self.seqno.get() }
    }

    /// Overwrites the staged group with what its keys held in the state before it.
    pub(super) fn take_back(&self, writes: &Writes, before: u64) -> Result<(), EngineError> {
        let mut order = self.order.lock();
        let mut old = Vec::new();
        for (key, _) in writes {
            old.push((key.clone(), self.get(key, before)?));
        }
        self.insert(old);
        order.staged = false;
        Ok(())
    }

    /// Applies a frame.
    pub(super) fn apply(&self, version: u64, frame: &Bytes) {
        self.stage(&frame::writes(frame));
        self.show(version);
    }

    /// Takes in a part of a state, writes it to files and merges them; counts its keys.
    pub(super) fn fill(&self, part: &Bytes) -> Result<u64, EngineError> {
        let order = self.order.lock();
        let keys = self.insert(frame::writes(part));
        self.tree.rotate_memtable();
        drop(order);
        self.flush(self.seqno.get())?;
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
        self.order.lock().version = version;
        self.seal_memtable();
        self.flush(self.seqno.get())?;
        Ok(())
    }

    /// Only under the lock that decides the order. Counts the keys.
    fn insert(&self, writes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) -> u64 {
        let seqno = self.seqno.next();
        let memtable = self.tree.active_memtable();
        let mut keys = 0;
        for (key, value) in writes {
            memtable.insert(match value {
                Some(value) => InternalValue::from_components(key, value, seqno, ValueType::Value),
                None => InternalValue::new_tombstone(key, seqno),
            });
            keys += 1;
        }
        keys
    }

    pub(super) fn get(&self, key: &[u8], seqno: u64) -> Result<Option<Bytes>, EngineError> {
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

    pub(super) fn memtable_bytes(&self) -> u64 {
        self.tree.active_memtable().size()
    }

    pub(super) fn sealed_memtables(&self) -> usize {
        self.tree.sealed_memtable_count()
    }

    /// How many sorted runs a read has to look through before it reaches the leveled part.
    pub(super) fn unsorted_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// Closes the memory table, with a note of how far it goes.
    pub(super) fn seal_memtable(&self) {
        let mut order = self.order.lock();
        let version = order.version.to_be_bytes();
        let applied = InternalValue::from_components(APPLIED_KEY, version, self.seqno.next(), ValueType::Value);
        self.tree.active_memtable().insert(applied);
        self.tree.rotate_memtable();
        order.sealed_version = order.version;
    }

    /// Writes closed memory tables to files, and says up to which version the files are complete.
    pub(super) fn flush(&self, oldest_seqno: u64) -> Result<u64, EngineError> {
        let sealed_version = self.order.lock().sealed_version;
        let lock = self.tree.get_flush_lock();
        guarded(&self.path, || self.tree.flush(&lock, oldest_seqno))?;
        Ok(sealed_version)
    }

    /// Merges files, if there is reason to.
    pub(super) fn compact(&self, oldest_seqno: u64) -> Result<(), EngineError> {
        let strategy = Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(UNMERGED_MAX);
        self.tree.compact(Arc::new(strategy), oldest_seqno).map_err(|error| tree_error(&self.path, error))
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
