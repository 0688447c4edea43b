//! Connections: how they are made, the settings of their sessions, and timeouts.

use super::{
    error::{passes, refused},
    tls,
    url::{self, Target},
};
use crate::EngineError;
use futures_util::future::{Either, select};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::Notify,
    time,
};
use tokio_postgres::{AsyncMessage, Client, Connection, Notification, Socket, tls::TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The longest wait for a connection, which is as long as a transaction may live.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(mundi_model::limits::TRANSACTION_AGE_MS_MAX);
/// Between attempts; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A schema's name is part of statements, of a channel's name, and of a lock's.
const SCHEMA_BYTES_MAX: usize = 40;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Snapshots. One that is forgotten holds back the server's cleaning, so it ends after twice the age of a transaction.
    Read,
    /// Commit groups. While one is open nobody else commits; a process that is stopped in between loses it soon.
    Commit,
    /// Making tables, hearing of commits.
    Other,
}

impl Purpose {
    const fn idle_in_transaction_ms_max(self) -> u64 {
        match self {
            Self::Read => 2 * mundi_model::limits::TRANSACTION_AGE_MS_MAX,
            Self::Commit => 2_000,
            Self::Other => 60_000,
        }
    }
}

#[derive(Clone)]
pub(super) struct Connector(Arc<Inner>);

struct Inner {
    target: Target,
    tls: MakeRustlsConnect,
    schema: String,
    handle: Handle,
    /// The server's process that commits for this one.
    committer: AtomicI32,
}

/// Receivers of notifications.
pub(super) struct Hearing {
    pub(super) heard: Notify,
    /// Whether it is one that is worth looking after.
    pub(super) is_news: Box<dyn Fn(&Notification) -> bool + Send + Sync>,
}

impl Connector {
    pub(super) fn new(url: &str, schema: &str, handle: Handle) -> Result<Self, EngineError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if schema.is_empty() || schema.len() > SCHEMA_BYTES_MAX || !schema.bytes().all(fits) {
            let what = format!("`{schema}` is no name for a schema: 1 to {SCHEMA_BYTES_MAX} of a-z, 0-9 and _");
            return Err(EngineError::DatabaseInvalid { what });
        }
        let target = url::parse(url)?;
        let tls = tls::connector(&target)?;
        let committer = AtomicI32::new(0);
        Ok(Self(Arc::new(Inner { target, tls, schema: schema.to_owned(), handle, committer })))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.0.handle
    }

    pub(super) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Where it is, without who and with which password.
    pub(super) fn database(&self) -> String {
        format!("{}/{}", self.0.target.config.get_dbname().unwrap_or_default(), self.0.schema)
    }

    /// From now on the server's process of this number commits for this one.
    pub(super) fn commits_by(&self, process: i32) {
        self.0.committer.store(process, Ordering::Relaxed);
    }

    pub(super) fn is_own(&self, commit: &Notification) -> bool {
        self.0.committer.load(Ordering::Relaxed) == commit.process_id()
    }

    /// The channel on which commits are announced.
    pub(super) fn channel(&self) -> String {
        format!("mundi_{}", self.0.schema)
    }

    /// A connection. While the server cannot be reached it is tried again, up to the age of a transaction.
    pub(super) async fn connect(&self, purpose: Purpose) -> Result<Client, EngineError> {
        self.connect_hearing(purpose, None).await
    }

    /// As [`Connector::connect`], on the runtime of the caller.
    pub(super) async fn connect_here(&self, purpose: Purpose) -> Result<Client, EngineError> {
        self.persist(purpose, None).await
    }

    /// As [`Connector::connect`]; what is heard, or that nothing more will be, is passed on.
    pub(super) async fn connect_hearing(
        &self,
        purpose: Purpose,
        hearing: Option<Arc<Hearing>>,
    ) -> Result<Client, EngineError> {
        let connector = self.clone();
        // On the runtime, because the caller may be on another executor.
        let connecting = self.0.handle.spawn(async move { connector.persist(purpose, hearing).await });
        connecting.await.map_err(|error| EngineError::failed("connecting", error))?
    }

    async fn persist(&self, purpose: Purpose, hearing: Option<Arc<Hearing>>) -> Result<Client, EngineError> {
        let deadline = time::Instant::now() + CONNECT_TIMEOUT;
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.once(purpose, hearing.clone()).await {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if !passes(&error) || time::Instant::now() + pause > deadline {
                return Err(refused("connecting", error));
            }
            time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    async fn once(&self, purpose: Purpose, hearing: Option<Arc<Hearing>>) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.0.target.config.connect(self.0.tls.clone()).await?;
        tokio::spawn(drive(connection, hearing));
        client.batch_execute(&self.session(purpose)).await?;
        Ok(client)
    }

    /// The settings of a session. The planner is told what we know: every statement goes by an index, once and for all.
    fn session(&self, purpose: Purpose) -> String {
        let (schema, idle_ms) = (&self.0.schema, purpose.idle_in_transaction_ms_max());
        format!(
            "SET search_path = \"{schema}\"; SET client_min_messages = error; SET jit = off;
             SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;
             SET idle_in_transaction_session_timeout = {idle_ms}; SET lock_timeout = 10000; SET statement_timeout = 60000;
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    }

    /// `None` if it takes longer than this, whatever executor the caller is on.
    pub(super) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let limit = {
            let _inside = self.0.handle.enter();
            time::sleep(limit)
        };
        match select(pin!(future), pin!(limit)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

/// Carries a connection until its client is dropped or it breaks.
async fn drive<T>(mut connection: Connection<Socket, T>, hearing: Option<Arc<Hearing>>)
where
    T: TlsStream + AsyncRead + AsyncWrite + Unpin,
{
    let is_news = |told: &Notification| hearing.as_ref().is_some_and(|hearing| (hearing.is_news)(told));
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(told))) if is_news(&told) => {}
            Some(Ok(_)) => continue,
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection to the database ended");
                break;
            }
            None => break,
        }
        if let Some(hearing) = &hearing {
            hearing.heard.notify_one();
        }
    }
    if let Some(hearing) = hearing {
        drop(connection);
        hearing.heard.notify_one();
    }
}
