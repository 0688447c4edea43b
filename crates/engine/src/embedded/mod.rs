//! The embedded engine: one folder, one process, no server.
//!
//! ```text
//! transaction ──commit──▶ queue ──▶ sequencer ──one synced frame──▶ log
//!      ▲                                │ on disk                    │ replayed at open
//!      │ answer                         ▼                            ▼
//!      └────────────────────── shown to readers ─────────────────▶ runs ──janitor──▶ lsm-tree's files
//! ```
//!
//! The log is authoritative until the tree has persisted its content. The tree has no log of its own;
//! its files are protected by the log while the log still has their content, and by their own
//! checksums afterwards.
//!
//! See `docs/internals/adr/0001-embedded-engine.md` for why it is built this way, and for the figures.

mod backup;
mod direct_io;
pub mod disk;
mod folder;
mod group_policy;
mod janitor;
mod key_cache;
mod log;
mod memtable;
mod publish;
mod queue;
mod range_cache;
mod sequencer;
pub mod sim_disk;
mod snapshots;
mod transaction;
mod tree;
mod watermark;

use crate::{Engine, EngineError, RangeRead, memory::ClockMs, watch::Watches};
pub use backup::{Backup, backup, restore};
use bytes::Bytes;
use disk::{Disk, Folder};
pub use folder::FORMAT;
use folder::Progress;
use group_policy::{AnswerCost, GroupPolicy};
use janitor::Janitor;
use key_cache::KeyCache;
use log::Log;
use mundi_model::limits;
use queue::Queue;
use range_cache::RangeCache;
use rustix::time::{ClockId, clock_gettime};
use sequencer::Sequencer;
use snapshots::{Snapshot, Snapshots};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};
pub use transaction::EmbeddedTransaction;
use tree::Tree;
use watermark::Watermark;

/// The version of the first group that a folder ever commits; version 0 is the empty state.
const FIRST_VERSION: u64 = 1;

/// How an embedded engine is set up. The defaults suit a laptop and a server alike.
#[derive(Clone)]
pub struct Options {
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// Size at which a memory table is written to a file.
    pub memtable_bytes: u64,
    /// Memory for blocks of files.
    pub cache_bytes: u64,
    /// By which transactions grow old.
    pub clock_ms: ClockMs,
    /// The disk under the log; `None` for a folder of the operating system.
    pub disk: Option<Arc<dyn Disk>>,
    /// The version that a folder begins with when it is made: above those of what is to be taken over into it.
    pub first_version: u64,
    /// Whether commit groups adapt to the load (`group_policy.rs`), or are taken as they are.
    pub adaptive_groups: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 4 << 20,
            memtable_bytes: 8 << 20,
            cache_bytes: 32 << 20,
            clock_ms: monotonic_clock_ms(),
            disk: None,
            first_version: FIRST_VERSION,
            adaptive_groups: true,
        }
    }
}

/// Milliseconds since some moment. It is asked with every read, so it is the clock that only the kernel's ticks move.
pub(crate) fn monotonic_clock_ms() -> ClockMs {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::MonotonicCoarse;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Arc::new(|| {
        #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; its clock ages transactions only")]
        let now = clock_gettime(CLOCK);
        u64::try_from(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unwrap_or(0)
    })
}

/// The engine that users run. Cheap to clone; the folder closes when the last clone and the last
/// transaction are gone.
#[derive(Clone)]
pub struct Embedded(Arc<Inner>);

/// The state that all threads share.
struct Shared {
    queue: Queue,
    answer_cost: AnswerCost,
    log: Log,
    watermark: Watermark,
    tree: Tree,
    key_cache: KeyCache,
    range_cache: RangeCache,
    snapshots: Snapshots,
    watches: Watches,
    janitor: Janitor,
    clock_ms: ClockMs,
}

struct Inner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
    /// Released last, after the threads have ended.
    _lock: folder::Lock,
}

impl Embedded {
    /// Opens a data folder, and makes it if it is missing or empty.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        Self::open_with(path, &Options::default())
    }

    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, EngineError> {
        let path = path.as_ref();
        let lock = folder::lock(path)?;
        let disk = disk_of(path, options)?;
        match folder::progress(&*disk, path)? {
            Progress::Ready => {}
            Progress::Empty => Self::make(&disk, path, options)?,
            Progress::Restoring => {
                let reason = "was being restored from a backup, and is not complete; restore it again";
                return Err(EngineError::FolderInvalid { path: path.to_owned(), reason });
            }
            Progress::New => {
                folder::start_over(&*disk, path)?;
                Self::make(&disk, path, options)?;
            }
        }
        Self::recover(path, options, &disk, lock)
    }

    /// Fills a new folder. Only the last step lets anyone commit to it.
    fn make(disk: &Arc<dyn Disk>, path: &Path, options: &Options) -> Result<(), EngineError> {
        folder::mark(&**disk, Progress::New)?;
        let tree = Tree::open(&path.join(folder::TREE), options.cache_bytes)?;
        if options.first_version > FIRST_VERSION {
            tree.filled(options.first_version - 1)?;
        }
        drop(tree);
        Self::complete(disk, path, options, options.first_version)
    }

    /// The last steps of a new folder: a log that continues from a version, and the marker that lets it be opened.
    fn complete(disk: &Arc<dyn Disk>, path: &Path, options: &Options, first_version: u64) -> Result<(), EngineError> {
        Log::create(disk.clone(), options.segment_bytes, first_version)?;
        Watermark::create(&**disk, first_version - 1)?;
        folder::sync_with_parent(path)?;
        folder::mark(&**disk, Progress::Ready)
    }

    /// Opens a folder that is complete: checks the log before anything is touched, then replays it.
    fn recover(path: &Path, options: &Options, disk: &Arc<dyn Disk>, lock: folder::Lock) -> Result<Self, EngineError> {
        let watermark = Watermark::open(&**disk)?;
        let missing = || EngineError::Corrupt { path: disk.path(""), offset: 0, what: "the log is missing".to_owned() };
        let recovered = log::recover(disk.clone(), options.segment_bytes, watermark.version())?.ok_or_else(missing)?;
        // Asked to open a folder without its list of files, the tree would begin a new one and drop the files.
        if recovered.first_version > FIRST_VERSION && !Tree::exists(&path.join(folder::TREE)) {
            let what = "the tree's list of files is missing".to_owned();
            return Err(EngineError::Corrupt { path: path.join(folder::TREE), offset: 0, what });
        }
        let tree = Tree::open(&path.join(folder::TREE), options.cache_bytes)?;
        let persisted = tree.newest().version;
        if recovered.first_version > persisted + 1 || recovered.last_version < persisted {
            let what = format!(
                "the log holds versions {} to {}, but the tree ends at version {persisted}",
                recovered.first_version, recovered.last_version
            );
            return Err(EngineError::Corrupt { path: disk.path(""), offset: 0, what });
        }
        recovered.settle()?;
        for (frame, version) in recovered.frames_above(persisted).zip(persisted + 1..) {
            tree.apply(version, &frame?);
            if tree.seal_if_large(options.memtable_bytes) {
                tree.flush_all()?;
            }
        }
        tree.merge_many(tree.newest().seqno);
        let shared = Shared {
            queue: Queue::new(GroupPolicy::new(options.adaptive_groups)),
            answer_cost: AnswerCost::default(),
            log: recovered.log,
            watermark,
            snapshots: Snapshots::new(tree.newest()),
            key_cache: KeyCache::new(tree.newest().version),
            range_cache: RangeCache::new(tree.newest().version),
            janitor: Janitor::new(options.memtable_bytes, &tree),
            tree,
            watches: Watches::default(),
            clock_ms: options.clock_ms.clone(),
        };
        Self::start(path, Arc::new(shared), lock)
    }

    fn start(path: &Path, shared: Arc<Shared>, lock: folder::Lock) -> Result<Self, EngineError> {
        // Two groups: one being answered, one waiting, while the sequencer syncs a third.
        let (answerer, work) = mpsc::sync_channel(1);
        let sequencer = Sequencer::new(shared.clone(), answerer);
        let (for_answerer, for_janitor, for_merge) = (shared.clone(), shared.clone(), shared.clone());
        let mut inner = Inner { shared, threads: Vec::new(), path: path.to_owned(), _lock: lock };
        inner.spawn("mundi-sequencer", move || sequencer.run())?;
        inner.spawn("mundi-answerer", move || publish::answer(&for_answerer, &work))?;
        inner.spawn("mundi-janitor", move || for_janitor.janitor.run(&for_janitor))?;
        inner.spawn("mundi-merge", move || for_merge.janitor.merge(&for_merge))?;
        Ok(Self(Arc::new(inner)))
    }

    /// The folder that it was opened on.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// The disk that the log of a folder is on.
fn disk_of(path: &Path, options: &Options) -> Result<Arc<dyn Disk>, EngineError> {
    if let Some(disk) = options.disk.clone() {
        return Ok(disk);
    }
    let log = path.join(folder::LOG);
    Ok(Arc::new(Folder::new(&log).map_err(|error| folder::folder_error(&log, error))?))
}

impl Inner {
    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), EngineError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads.push(thread.map_err(|error| EngineError::failed("starting a thread", error))?);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.shared.janitor.stop();
        self.shared.watches.close();
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    /// The value of a key in a state.
    fn get(&self, key: &[u8], at: Snapshot) -> Result<Option<Bytes>, EngineError> {
        if let Some(known) = self.key_cache.get(key, at.version) {
            return Ok(known);
        }
        let found = self.tree.get(key, at.seqno)?;
        self.key_cache.keep(key, at.version, found.as_ref());
        Ok(found)
    }

    /// The first items of a short range, upwards, in a state.
    fn range(&self, read: &RangeRead, at: Snapshot) -> Result<Vec<(Bytes, Bytes)>, EngineError> {
        let ahead = match self.range_cache.get(read, at.version) {
            Ok(known) => return Ok(known),
            Err(ahead) => ahead,
        };
        let wanted = read.limit + ahead;
        let found = self.tree.range(&read.start, &read.end, false, at.seqno).take(wanted);
        let mut items = found.collect::<Result<Vec<_>, _>>()?;
        self.range_cache.keep(read, at.version, &items, items.len() < wanted);
        items.truncate(read.limit);
        Ok(items)
    }

    /// The oldest state that a transaction may still read. One that is too old to be allowed to read, with
    /// as much time again for a read that is in progress, no longer counts.
    fn oldest_snapshot(&self) -> Snapshot {
        let now_ms = (self.clock_ms)();
        self.snapshots.oldest(now_ms.saturating_sub(2 * limits::TRANSACTION_AGE_MS_MAX))
    }
}

impl Engine for Embedded {
    type Transaction = EmbeddedTransaction;

    async fn begin(&self) -> Result<EmbeddedTransaction, EngineError> {
        Ok(EmbeddedTransaction::new(self.clone()))
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let shared = self.0.shared.clone();
        self.0.shared.watches.clone().until(Bytes::copy_from_slice(key), move |key| {
            let newest = shared.snapshots.open((shared.clock_ms)());
            Ok(shared.get(key, newest.at())? != seen)
        })
    }

    fn reclaim(&self) {
        self.0.shared.janitor.reclaim(&self.0.shared.tree);
    }

    async fn disk_bytes(&self) -> Result<Option<u64>, EngineError> {
        folder::size_bytes(&self.0.path).map(Some)
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("path", &self.0.path).finish_non_exhaustive()
    }
}
