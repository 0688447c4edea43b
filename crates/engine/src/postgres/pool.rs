//! The connections that read: at most so many, made when they are needed, kept while they are good.

use super::{
    connect::Connector,
    error::refused,
    reader::{Read, Reader, value_of},
};
use crate::EngineError;
use bytes::Bytes;
use mundi_model::limits;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Error, Row};

/// As long as a transaction may live.
const WAIT_MAX: Duration = Duration::from_millis(limits::TRANSACTION_AGE_MS_MAX);

pub(super) struct Pool {
    connector: Connector,
    permits: Arc<Semaphore>,
    max: usize,
    idle: Mutex<Vec<Arc<Reader>>>,
    common: tokio::sync::Mutex<Option<Arc<Reader>>>,
}

impl Pool {
    pub(super) fn new(connector: Connector, max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            connector,
            permits: Arc::new(Semaphore::new(max)),
            max,
            idle: Mutex::default(),
            common: tokio::sync::Mutex::default(),
        }
    }

    /// A connection for one reader, once there is one.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, EngineError> {
        let permit = self.connector.within(WAIT_MAX, self.permits.clone().acquire_owned()).await;
        let Some(Ok(permit)) = permit else {
            return Err(EngineError::Busy { what: "the pool of connections", max: self.max });
        };
        let reader = match self.idle() {
            Some(reader) => reader,
            None => Arc::new(Reader::connect(&self.connector).await?),
        };
        Ok(Lease { reader, in_snapshot: false, is_broken: false, pool: self.clone(), _permit: permit })
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

    /// The newest value of a key, outside of any transaction.
    pub(super) async fn peek(self: &Arc<Self>, read: &Read) -> Result<Option<Bytes>, EngineError> {
        let rows = self.common().await?.rows(read).await.map_err(|error| refused("looking at a key", error))?;
        value_of(&rows)
    }
}

/// A connection in use; it goes back when it is dropped, unless it is broken.
pub(super) struct Lease {
    reader: Arc<Reader>,
    in_snapshot: bool,
    is_broken: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Reads at the snapshot of this version, or takes one with its first read. Once taken, it ends with the lease.
    pub(super) async fn read(&mut self, version: Option<u64>, read: &Read) -> Result<(u64, Vec<Row>), Error> {
        match version {
            Some(version) => Ok((version, self.reader.rows(read).await?)),
            None => {
                self.in_snapshot = true;
                self.reader.begin(read).await
            }
        }
    }

    /// It did not answer, or not as it should: it is closed, and not used again.
    pub(super) fn discard(&mut self) {
        self.is_broken = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_broken || self.reader.is_closed() {
            return;
        }
        if self.in_snapshot {
            self.reader.end();
        }
        self.pool.idle.lock().push(self.reader.clone());
    }
}
