//! Diagnosis of a database for its operator.

use super::{
    connect::{Connector, Purpose},
    error::refused,
};
use crate::EngineError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio_postgres::Row;

/// The diagnosis. Nothing was changed, and no tables were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub server_version: String,
    /// With one of these off, an acknowledged commit does not survive the server's crash.
    pub fsync: bool,
    pub full_page_writes: bool,
    pub connections_max: i64,
    pub connections_used: i64,
    /// How far its clock is ahead of this machine's.
    pub ahead_ms: i64,
    /// Whether the schema is there, and whether this user may make or change it.
    pub schema_exists: bool,
    pub may_write: bool,
    /// The age of the oldest open transaction in the database: it holds back cleaning.
    pub oldest_transaction: Duration,
}

const QUESTION: &str = "
    SELECT current_setting('server_version'), current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
        current_setting('max_connections')::bigint, (SELECT count(*) FROM pg_stat_activity),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
        CASE WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) THEN has_schema_privilege($1, 'CREATE, USAGE')
            ELSE has_database_privilege(current_database(), 'CREATE') END,
        (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend')";

/// Looks at the database that a URL names. Called within a tokio runtime.
pub async fn diagnose(url: &str, schema: &str) -> Result<Diagnosis, EngineError> {
    let handle = Handle::try_current().map_err(|error| EngineError::failed("looking outside of a runtime", error))?;
    let client = Connector::new(url, schema, handle)?.connect(Purpose::Other).await?;
    let failed = |error| refused("looking at the database", error);
    let row = client.query_one(QUESTION, &[&schema]).await.map_err(failed)?;
    found(&row, own_now_ms()).map_err(failed)
}

fn found(row: &Row, own_now_ms: i64) -> Result<Diagnosis, tokio_postgres::Error> {
    let (now_ms, oldest_s): (i64, i64) = (row.try_get(5)?, row.try_get(8)?);
    Ok(Diagnosis {
        server_version: row.try_get(0)?,
        fsync: row.try_get(1)?,
        full_page_writes: row.try_get(2)?,
        connections_max: row.try_get(3)?,
        connections_used: row.try_get(4)?,
        ahead_ms: now_ms.saturating_sub(own_now_ms),
        schema_exists: row.try_get(6)?,
        may_write: row.try_get(7)?,
        oldest_transaction: Duration::from_secs(oldest_s.unsigned_abs()),
    })
}

#[expect(clippy::disallowed_methods, reason = "this very clock is compared with the database's")]
fn own_now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
