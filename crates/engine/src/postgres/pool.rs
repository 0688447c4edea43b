//! The pool of reading connections: bounded, opened on demand, kept while they work.
//!
//! A connection is lent to a transaction for its snapshot. A transaction makes progress only while it is polled, and a caller with several
//! transactions may wait for one before it polls the others; so a connection that is needed and not used is **taken back**. A transaction
//! that has lost it can still commit what it has read; a further read fails because the snapshot is gone, and the transaction is run again.

use super::{
    connect::Connector,
    error::refused,
    reader::{Reader, bytes_of},
};
use crate::{EngineError, Read, planned_reads::Found};
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, select};
use mundi_model::limits;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};
use tokio_postgres::Error;

/// As long as a transaction may live.
const WAIT_MAX: Duration = Duration::from_millis(limits::TRANSACTION_AGE_MS_MAX);
/// A transaction that has not used its connection for so long may lose it to one that waits. Far longer than a read takes.
const IDLE_AFTER: Duration = Duration::from_millis(250);

pub(super) struct Pool {
    connector: Connector,
    permits: Arc<Semaphore>,
    max: usize,
    idle: Mutex<Vec<Arc<Reader>>>,
    /// Those that are lent, by when they were last used: a number that rises with each use.
    lent: Mutex<BTreeMap<u64, Arc<Slot>>>,
    uses: AtomicU64,
    common: tokio::sync::Mutex<Option<Arc<Reader>>>,
}

/// A connection that is lent, until it is taken back.
struct Slot(Mutex<Option<Lent>>);

struct Lent {
    reader: Arc<Reader>,
    in_snapshot: bool,
    used_at: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(connector: Connector, max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            connector,
            permits: Arc::new(Semaphore::new(max)),
            max,
            idle: Mutex::default(),
            lent: Mutex::default(),
            uses: AtomicU64::new(0),
            common: tokio::sync::Mutex::default(),
        }
    }

    /// A connection for one reader, once there is one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, EngineError> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned()
            && let Some(reader) = self.idle()
        {
            return Ok(self.lend(reader, permit));
        }
        // Waited for by a task of its own: its turn may come while nobody polls the caller, and a turn that nobody takes would
        // block all behind it. What the task was given can be taken back like any other.
        let (pool, (mut give, given)) = (self.clone(), oneshot::channel());
        self.connector.handle().spawn(async move {
            let leased = match select(pin!(pool.lease_in_turn()), pin!(give.closed())).await {
                Either::Left((leased, _)) => leased,
                Either::Right(_) => return,
            };
            let _dropped = give.send(leased);
        });
        given.await.unwrap_or(Err(EngineError::Closed))
    }

    async fn lease_in_turn(self: &Arc<Self>) -> Result<Lease, EngineError> {
        let permit = self.permit().await?;
        let reader = match self.idle() {
            Some(reader) => reader,
            None => Arc::new(Reader::connect(&self.connector).await?),
        };
        Ok(self.lend(reader, permit))
    }

    fn lend(self: &Arc<Self>, reader: Arc<Reader>, permit: OwnedSemaphorePermit) -> Lease {
        let lent = Lent { reader, in_snapshot: false, used_at: Instant::now(), _permit: permit };
        let slot = Arc::new(Slot(Mutex::new(Some(lent))));
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        self.lent.lock().insert(used, slot.clone());
        Lease { slot, used, pool: self.clone() }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, EngineError> {
        for _ in 0..WAIT_MAX.as_millis() / IDLE_AFTER.as_millis() {
            match self.connector.within(IDLE_AFTER, self.permits.clone().acquire_owned()).await {
                Some(Ok(permit)) => return Ok(permit),
                Some(Err(_)) => return Err(EngineError::Closed),
                None => self.take_back(),
            }
        }
        Err(EngineError::Busy { what: "the pool of connections", max: self.max })
    }

    /// Ends the snapshot that was not used for the longest time. Its owner's last question was answered long ago.
    fn take_back(&self) {
        let Some(oldest) = self.lent.lock().first_entry().map(|entry| entry.get().clone()) else { return };
        let lent = oldest.0.lock().take_if(|lent| lent.used_at.elapsed() >= IDLE_AFTER);
        if let Some(lent) = lent {
            tracing::debug!("an unused connection was taken back");
            self.lent.lock().retain(|_, slot| !Arc::ptr_eq(slot, &oldest));
            self.settle(&lent);
        }
    }

    /// Ends the snapshot, and keeps the connection if it is good.
    fn settle(&self, lent: &Lent) {
        if lent.reader.is_closed() {
            return;
        }
        if lent.in_snapshot {
            lent.reader.end();
        }
        self.idle.lock().push(lent.reader.clone());
    }

    fn idle(&self) -> Option<Arc<Reader>> {
        let mut idle = self.idle.lock();
        idle.retain(|reader| !reader.is_closed());
        idle.pop()
    }

    /// The one connection for what needs no snapshot. It is none of those that are lent: who waits for a watch may hold it
    /// without asking how it goes, and must not keep a connection from others by that.
    async fn common(self: &Arc<Self>) -> Result<Arc<Reader>, EngineError> {
        let pool = self.clone();
        let connecting = self.connector.handle().spawn(async move {
            let mut common = pool.common.lock().await;
            if let Some(reader) = common.as_ref().filter(|reader| !reader.is_closed()) {
                return Ok(reader.clone());
            }
            let reader = Arc::new(Reader::connect(&pool.connector).await?);
            Ok(common.insert(reader).clone())
        });
        connecting.await.map_err(|error| EngineError::failed("connecting", error))?
    }

    /// The server's clock, in microseconds since 1970, with a call before and after the question.
    pub(super) async fn now_us<T>(self: &Arc<Self>, mark: impl Fn() -> T) -> Result<(T, i64, T), EngineError> {
        let reader = self.common().await?;
        let before = mark();
        let now_us = reader.now_us().await.map_err(|error| refused("asking for the time", error))?;
        Ok((before, now_us, mark()))
    }

    pub(super) async fn disk_bytes(self: &Arc<Self>) -> Result<u64, EngineError> {
        let reader = self.common().await?;
        let bytes = reader.disk_bytes().await.map_err(|error| refused("asking for the size of the tables", error))?;
        Ok(bytes.unsigned_abs())
    }

    /// The newest values of keys that an index holds, and the version of the snapshot that they were read at.
    pub(super) async fn newest(self: &Arc<Self>, keys: &[Bytes]) -> Result<(u64, BTreeMap<Bytes, Bytes>), EngineError> {
        let reader = self.common().await?;
        let rows = reader.newest(keys).await.map_err(|error| refused("looking at keys", error))?;
        let (mut version, mut values) = (0, BTreeMap::new());
        for row in &rows {
            version = row.try_get::<_, i64>(0).map_err(|error| refused("looking at keys", error))?.unsigned_abs();
            if row.try_get::<_, Option<&[u8]>>(1).is_ok_and(|key| key.is_some()) {
                values.insert(bytes_of(row, 1)?, bytes_of(row, 2)?);
            }
        }
        Ok((version, values))
    }

    /// Answers reads of any kind in one snapshot of the newest state, with its version. Only one caller at a time may ask.
    pub(super) async fn newest_of_all(self: &Arc<Self>, reads: &[Read]) -> Result<(u64, Vec<Found>), EngineError> {
        let reader = self.common().await?;
        let found = reader.begin(reads).await;
        reader.end();
        found.map_err(|error| refused("looking at the newest state", error))
    }
}

/// A connection in use; it goes back when it is dropped, unless it is broken.
pub(super) struct Lease {
    slot: Arc<Slot>,
    used: u64,
    pool: Arc<Pool>,
}

impl Lease {
    /// Reads, in one trip, at the snapshot of this version; or takes one. Once taken, it ends with the lease. `None` if
    /// the connection was taken back.
    ///
    /// A question is sent by the first poll, under the lock that decides whose the connection is; its answer belongs to the
    /// snapshot that it was sent in, whoever has the connection by then.
    pub(super) async fn read(
        &mut self,
        version: Option<u64>,
        reads: &[Read],
    ) -> Option<Result<(u64, Vec<Found>), Error>> {
        let reader = self.touch(version.is_none())?;
        // In a box, beside which a trip costs nothing: all protocols are made of it.
        let mut asking: BoxFuture<'_, _> = Box::pin(async {
            match version {
                Some(version) => Ok((version, reader.read(reads).await?)),
                None => reader.begin(reads).await,
            }
        });
        let mut is_sent = false;
        poll_fn(|context| {
            if is_sent {
                return asking.as_mut().poll(context).map(Some);
            }
            let lent = self.slot.0.lock();
            if lent.is_none() {
                return Poll::Ready(None);
            }
            is_sent = true;
            asking.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Notes the use, so that others are taken back before this one.
    fn touch(&mut self, takes_snapshot: bool) -> Option<Arc<Reader>> {
        let mut pool = self.pool.lent.lock();
        pool.remove(&self.used)?;
        let mut slot = self.slot.0.lock();
        let lent = slot.as_mut()?;
        lent.in_snapshot |= takes_snapshot;
        lent.used_at = Instant::now();
        self.used = self.pool.uses.fetch_add(1, Ordering::Relaxed);
        pool.insert(self.used, self.slot.clone());
        Some(lent.reader.clone())
    }

    /// It did not answer, or not as it should: it is closed, and not used again.
    pub(super) fn discard(&mut self) {
        self.pool.lent.lock().remove(&self.used);
        drop(self.slot.0.lock().take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.lent.lock().remove(&self.used);
        let lent = self.slot.0.lock().take();
        if let Some(lent) = lent {
            self.pool.settle(&lent);
        }
    }
}
