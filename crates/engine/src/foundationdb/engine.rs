//! The engine: a cluster, a deployment in it, and what its processes keep up to date together.

use super::{
    client_error::refused,
    keys::Keyspace,
    network, shared_clock,
    transaction::FoundationDbTransaction,
    url::{self, Cluster},
    version_guard,
    watch_table::WatchTable,
    watcher::Carrier,
};
use crate::{
    Engine, EngineError, ReadPlan, Source, embedded::monotonic_clock_ms, memory::ClockMs, overlay::check_key,
    watch::Watches,
};
use bytes::Bytes;
use foundationdb::{
    Database, FdbResult, Transaction as ClientTransaction,
    options::{DatabaseOption, MutationType, TransactionOption},
};
use futures_util::future::{Either, select};
use mundi_model::limits;
use parking_lot::Mutex;
use std::{
    fmt,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, task::JoinHandle, time};
use xxhash_rust::xxh3::xxh3_64;

/// A client waits for ever for a cluster that does not answer. Ours waits as long as a transaction lives: what is read later could not be used.
#[expect(clippy::cast_possible_truncation, reason = "seconds")]
pub(super) const READ_WAIT_MS: i32 = limits::TRANSACTION_AGE_MS_MAX as i32;

/// A commit may have been sent at the end of that time, and has as long again. Then its fate is unknown.
pub(super) const COMMIT_WAIT_MS: i32 = 2 * READ_WAIT_MS;

/// A write of the engine's own keys is tried so often, with the client's pauses in between.
const OWN_ATTEMPTS_MAX: u32 = 8;

/// How the engine is set up.
#[derive(Clone)]
pub struct Options {
    /// Where a cluster file is kept that was given by its contents.
    pub folder: PathBuf,
    /// Stamps that are taken over from another engine go up to here: a cluster below it is refused.
    pub imported_version: u64,
    /// By which transactions grow old.
    pub clock_ms: ClockMs,
}

impl Default for Options {
    fn default() -> Self {
        Self { folder: std::env::temp_dir(), imported_version: 0, clock_ms: monotonic_clock_ms() }
    }
}

/// The engine of a fleet that grows. Cheap to clone.
///
/// It is opened within a tokio runtime, which carries its watches and timers. Transactions run on any executor.
#[derive(Clone)]
pub struct FoundationDb(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

/// The state that transactions, watches and tasks share.
pub(super) struct Shared {
    pub(super) database: Database,
    pub(super) keys: Keyspace,
    pub(super) handle: Handle,
    pub(super) clock_ms: ClockMs,
    pub(super) watches: Watches,
    pub(super) watch_table: Mutex<WatchTable<Carrier>>,
    /// How far the shared clock was ahead of this machine's when it was last read.
    ahead_ns: AtomicI64,
}

impl FoundationDb {
    /// Opens the deployment that a `foundationdb://` URL names. A cluster that cannot be reached is an error after some seconds; one whose
    /// versions are below those in the data is refused.
    pub async fn open_with(url: &str, options: Options) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared::connect(url, &options)?);
        shared.guard_version(options.imported_version).await?;
        let keeper = shared.handle.spawn(raise_often(shared.clone()));
        Ok(Self(Arc::new(Inner { shared, keeper })))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// How far the fleet's clock is ahead of this one, which counts nanoseconds since 1970; and how wrong that may be. Publishes this process' time,
    /// so it is called every [`PUBLISH_EVERY`](super::PUBLISH_EVERY).
    pub async fn clock_ahead_ns(&self, own_now_ns: impl Fn() -> u64) -> Result<(i64, u64), EngineError> {
        let shared = self.shared();
        let failed = |error| refused("reading the shared clock", error);
        let transaction = shared.begin().map_err(failed)?;
        let before_ns = own_now_ns();
        let stored = transaction.get(&shared.keys.clock(), true).await.map_err(failed)?;
        let after_ns = own_now_ns();
        let published_ns = stored.and_then(|value| shared_clock::read(&value));
        let ahead_ns = shared_clock::corrected(shared.ahead_ns.load(Ordering::Relaxed), after_ns, published_ns);
        shared.ahead_ns.store(ahead_ns, Ordering::Relaxed);
        let published = shared_clock::published(ahead_ns, own_now_ns());
        shared.raise(&shared.keys.clock(), &published).await.map_err(failed)?;
        Ok((ahead_ns, after_ns.saturating_sub(before_ns) / 2))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.keeper.abort();
        self.shared.watches.close();
    }
}

async fn raise_often(shared: Arc<Shared>) {
    loop {
        time::sleep(version_guard::RAISE_EVERY).await;
        if let Err(error) = shared.raise_version().await {
            tracing::debug!(%error, "the highest version could not be noted; it is tried again");
        }
    }
}

impl Shared {
    pub(super) fn connect(url: &str, options: &Options) -> Result<Self, EngineError> {
        let handle =
            Handle::try_current().map_err(|error| EngineError::failed("opening outside of a runtime", error))?;
        let target = url::parse(url)?;
        let file = cluster_file(&target.cluster, &options.folder)?;
        network::start()?;
        let database = Database::from_path(&file).and_then(|database| {
            database.set_option(DatabaseOption::TransactionTimeout(READ_WAIT_MS))?;
            Ok(database)
        });
        Ok(Self {
            database: database.map_err(|error| refused("reading the cluster file", error))?,
            keys: Keyspace::new(&target.prefix),
            handle,
            clock_ms: options.clock_ms.clone(),
            watches: Watches::default(),
            watch_table: Mutex::new(WatchTable::new(limits::ENGINE_WATCHES_MAX)),
            ahead_ns: AtomicI64::new(0),
        })
    }

    /// A transaction of the client that sees nothing of its own writes: ours are kept until the commit.
    pub(super) fn begin(&self) -> FdbResult<ClientTransaction> {
        let transaction = self.database.create_trx()?;
        transaction.set_option(TransactionOption::ReadYourWritesDisable)?;
        Ok(transaction)
    }

    /// The value under a key as it is now.
    pub(super) async fn newest(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let reading = async { self.begin()?.get(&self.keys.stored(key), true).await };
        let found = reading.await.map_err(|error| refused("reading a watched key", error))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// The version of the cluster, and the highest one that the deployment has seen.
    pub(super) async fn versions(&self) -> FdbResult<(u64, Option<u64>)> {
        let transaction = self.begin()?;
        let version = transaction.get_read_version().await?;
        let highest = transaction.get(&self.keys.highest_version(), true).await?;
        Ok((version.unsigned_abs(), highest.and_then(|value| version_guard::read(&value))))
    }

    async fn guard_version(&self, imported: u64) -> Result<(), EngineError> {
        let failed = |error| refused("reading the highest version", error);
        let (version, highest) = self.versions().await.map_err(failed)?;
        version_guard::check(version, highest, imported)?;
        self.raise(&self.keys.highest_version(), &version_guard::stored(version)).await.map_err(failed)
    }

    async fn raise_version(&self) -> FdbResult<()> {
        let version = self.begin()?.get_read_version().await?.unsigned_abs();
        self.raise(&self.keys.highest_version(), &version_guard::stored(version)).await
    }

    /// Raises a number of the engine's own to at least this one. Once more changes nothing, so it is repeated whatever became of it.
    async fn raise(&self, key: &[u8], number: &[u8; 8]) -> FdbResult<()> {
        let mut transaction = self.database.create_trx()?;
        for _ in 1..OWN_ATTEMPTS_MAX {
            transaction.atomic_op(key, number, MutationType::Max);
            match transaction.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => transaction = error.on_error().await?,
            }
        }
        transaction.atomic_op(key, number, MutationType::Max);
        transaction.commit().await.map(drop).map_err(Into::into)
    }

    /// Awaits the future within this time. Runs on any executor.
    pub(super) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let limit = {
            let _inside = self.handle.enter();
            time::sleep(limit)
        };
        match select(pin!(future), pin!(limit)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

/// The path of the cluster file. One that was given by its contents is written once: the client keeps it up to date afterwards, when coordinators
/// change.
fn cluster_file(cluster: &Cluster, folder: &Path) -> Result<String, EngineError> {
    let path = match cluster {
        Cluster::File(path) => path.clone(),
        Cluster::Contents(contents) => {
            let path = folder.join(format!("fdb-{:016x}.cluster", xxh3_64(contents.as_bytes())));
            if !path.exists() {
                let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, contents));
                written.map_err(|error| EngineError::failed(format!("writing {}", path.display()), error))?;
            }
            path
        }
    };
    let path = path.into_os_string().into_string();
    path.map_err(|_| EngineError::DatabaseInvalid { what: "the path of its cluster file is not UTF-8".to_owned() })
}

impl Engine for FoundationDb {
    type Transaction = FoundationDbTransaction;

    /// Sends nothing: the client asks for a version with the first read.
    async fn begin(&self) -> Result<FoundationDbTransaction, EngineError> {
        Ok(FoundationDbTransaction::new(self.clone(), ReadPlan::default()))
    }

    /// The client itself shares requests for versions, so a shared snapshot is one of its own here. There is no cache.
    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<FoundationDbTransaction>, EngineError> {
        Ok(match source {
            Source::OwnSnapshot | Source::SharedSnapshot => Some(FoundationDbTransaction::new(self.clone(), plan())),
            Source::Cache => None,
        })
    }

    /// The keys and values of this deployment, once: the cluster stores them as often as its redundancy says. An estimate of the cluster's.
    async fn disk_bytes(&self) -> Result<Option<u64>, EngineError> {
        let shared = self.shared();
        let (start, end) = shared.keys.data_range();
        let asking = async { shared.begin()?.get_estimated_range_size_bytes(&start, &end).await };
        let bytes = asking.await.map_err(|error| refused("estimating the size", error))?;
        Ok(Some(bytes.unsigned_abs()))
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let (shared, key) = (self.shared().clone(), Bytes::copy_from_slice(key));
        async move {
            check_key(&key)?;
            super::watcher::watch(shared, key, seen).await
        }
    }
}

impl fmt::Debug for FoundationDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundationDb").field("keys", &self.shared().keys).finish_non_exhaustive()
    }
}
