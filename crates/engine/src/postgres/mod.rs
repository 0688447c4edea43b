//! The engine on PostgreSQL: one database, any number of processes.
//!
//! ```text
//! transaction ──first read──▶ pool ──BEGIN REPEATABLE READ──▶ a snapshot: exactly the commits up to version v
//!      │
//!      └──commit──▶ sequencer ──lock the head, what was written since?──▶ check, stamp
//!                       │         └──────── writes, footprint, COMMIT ◀──────┘
//!                       ▼
//! conflict window: recent writes by key ◀── follower: LISTEN, and a periodic poll
//! ```
//!
//! The lock on the head row puts all commits of all processes in one order. A commit group is one database
//! transaction that holds it, so version n + 1 is not begun before version n is visible: what a snapshot sees is always a
//! prefix of the order, and the newest version that it finds is the prefix' name. At commit the process knows what was
//! written since, key by key, and refuses who has read any of it. See `docs/internals/adr/0006-postgres-engine.md`.

mod batched_reads;
mod conflict_window;
mod connect;
mod diagnose;
mod error;
mod follower;
mod footprint;
mod pool;
mod reader;
mod schema;
mod sequencer;
mod sequencer_thread;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod transaction;
mod url;
mod value_cache;
mod writer;

use crate::{
    Engine, EngineError, Read, ReadPlan, Source, embedded::monotonic_clock_ms, memory::ClockMs, overlay::check_key,
    planned_reads::Found,
};
use batched_reads::BatchedReads;
use bytes::Bytes;
use conflict_window::ConflictWindow;
use connect::Connector;
pub use diagnose::{Diagnosis, diagnose};
use pool::Pool;
use sequencer::{Queue, Sequencer};
use std::{fmt, sync::Arc};
use tokio::{runtime::Handle, task::JoinHandle};
pub use transaction::PostgresTransaction;

/// The version of the tables that this program makes and reads.
pub use schema::TABLES_VERSION;

/// How the engine is set up.
#[derive(Clone)]
pub struct Options {
    /// The schema that holds the tables: several stores can share a database.
    pub schema: String,
    /// How many transactions of this process read at the same time. Three more connections commit, listen, and look after watches.
    pub connections_max: usize,
    /// By which transactions grow old.
    pub clock_ms: ClockMs,
}

impl Default for Options {
    fn default() -> Self {
        Self { schema: "mundi".to_owned(), connections_max: 16, clock_ms: monotonic_clock_ms() }
    }
}

/// The engine of a fleet. Cheap to clone; its connections close when the last clone and the last transaction are gone.
///
/// It is opened within a tokio runtime, which carries its connections but for that of a busy sequencer. Transactions run on any executor.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    queue: Queue,
    follower: JoinHandle<()>,
}

/// The state that transactions and tasks share.
struct Shared {
    connector: Connector,
    pool: Arc<Pool>,
    batched_reads: BatchedReads,
    conflict_window: ConflictWindow,
    clock_ms: ClockMs,
}

impl Postgres {
    /// Opens the database that a `postgres://` URL names, and makes the tables if they are missing.
    pub async fn open(url: &str) -> Result<Self, EngineError> {
        Self::open_with(url, Options::default()).await
    }

    pub async fn open_with(url: &str, options: Options) -> Result<Self, EngineError> {
        let handle =
            Handle::try_current().map_err(|error| EngineError::failed("opening outside of a runtime", error))?;
        let connector = Connector::new(url, &options.schema, handle)?;
        let newest = schema::prepare(&connector).await?;
        let pool = Arc::new(Pool::new(connector.clone(), options.connections_max));
        let shared = Arc::new(Shared {
            batched_reads: BatchedReads::start(pool.clone(), connector.handle()),
            pool,
            connector,
            conflict_window: ConflictWindow::new(newest),
            clock_ms: options.clock_ms,
        });
        let (queue, sequencer) = Sequencer::new(shared.clone());
        sequencer.start().await?;
        let follower = shared.connector.handle().spawn(follower::follow(shared.clone()));
        Ok(Self(Arc::new(Inner { shared, queue, follower })))
    }
}

impl Postgres {
    /// Makes every later commit of any process stand above this version: for what is taken over from another engine.
    pub async fn raise_version(&self, version: u64) -> Result<(), EngineError> {
        writer::raise_version(&self.0.shared.connector, version).await
    }

    /// How far the database's clock is ahead of this one, which counts nanoseconds since 1970; and how wrong that may be.
    ///
    /// Processes of a fleet agree on the time by agreeing with their database.
    pub async fn clock_ahead_ns(&self, own_now_ns: impl Fn() -> u64) -> Result<(i64, u64), EngineError> {
        let (before, database_us, after) = self.0.shared.pool.now_us(&own_now_ns).await?;
        let trip_ns = after.saturating_sub(before);
        let own_ns = i64::try_from(before + trip_ns / 2).unwrap_or(i64::MAX);
        Ok((database_us.saturating_mul(1_000).saturating_sub(own_ns), trip_ns / 2))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.follower.abort();
        self.shared.conflict_window.watches().close();
    }
}

impl Engine for Postgres {
    type Transaction = PostgresTransaction;

    /// Sends nothing: the snapshot is taken by the first read, and a transaction that reads nothing needs none.
    async fn begin(&self) -> Result<PostgresTransaction, EngineError> {
        Ok(PostgresTransaction::new(self.clone()))
    }

    async fn begin_planned(
        &self,
        source: Source,
        plan: impl FnOnce() -> ReadPlan + Send,
    ) -> Result<Option<PostgresTransaction>, EngineError> {
        Ok(Some(PostgresTransaction::planned(self.clone(), source, plan())))
    }

    /// Autovacuum makes the space of deleted rows usable again; only `VACUUM FULL` gives it back to the disk.
    async fn disk_bytes(&self) -> Result<Option<u64>, EngineError> {
        self.0.shared.pool.disk_bytes().await.map(Some)
    }

    fn watch(&self, key: &[u8], seen: Option<Bytes>) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
        let (shared, key) = (self.0.shared.clone(), Bytes::copy_from_slice(key));
        async move {
            check_key(&key)?;
            // First in place, then looked: what commits in between wakes it.
            let (_watch, woken) = shared.conflict_window.watches().place(&key)?;
            let (found, _) = shared.batched_reads.ask(vec![Read::Get(key)]).await?;
            if found.into_iter().next().and_then(Found::value) != seen {
                return Ok(());
            }
            // Whoever wrote it has mostly changed it; the caller looks in any case.
            woken.await.map_err(|_| EngineError::Closed)
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("database", &self.0.shared.connector.database()).finish_non_exhaustive()
    }
}
