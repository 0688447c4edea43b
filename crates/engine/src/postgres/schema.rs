//! The tables: the first of any number of starting processes creates and migrates them.

use super::{
    connect::{Connector, Purpose},
    error::refused,
};
use crate::EngineError;
use tokio_postgres::Client;

/// The longest key that an index of PostgreSQL surely holds: a third of a page, less its overhead. Longer ones, which
/// nobody but a test is known to use, stand in a table of their own.
pub(super) const KEY_BYTES_INDEXED: usize = 2_000;

/// Each brings the tables from the version of its place to the next; none is ever changed.
///
/// - `kv` has room in its pages for values that change in place (counters), is cleaned after few changes, because queues
///   delete as much as they write, and is never cut at its end, which would lock it.
/// - `head` is one row that is locked and never written: a lock leaves no dead row behind.
/// - `commits` has a row for each commit group, with the keys that it wrote, until nobody can ask for it any more. The
///   newest always stays.
const STEPS: [&str; 1] = ["
    CREATE TABLE head (one boolean PRIMARY KEY DEFAULT true CHECK (one));
    INSERT INTO head DEFAULT VALUES;
    CREATE TABLE commits (version bigint PRIMARY KEY, footprint bytea NOT NULL) WITH (
        autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off
    );
    INSERT INTO commits VALUES (0, '');
    CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL) WITH (
        fillfactor = 85,
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off
    );
    CREATE TABLE kv_long (k bytea NOT NULL, v bytea NOT NULL);
    CREATE UNIQUE INDEX kv_long_key ON kv_long (sha256(k));
    CREATE INDEX kv_long_order ON kv_long (substring(k FROM 1 FOR 2000));
"];

/// The version of the tables that this program makes and reads.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "they are few")]
pub const TABLES_VERSION: i32 = STEPS.len() as i32;

/// Makes sure that the tables are there, and gives the newest version in them.
pub(super) async fn prepare(connector: &Connector) -> Result<u64, EngineError> {
    let client = connector.connect(Purpose::Other).await?;
    if found(&client, connector.schema()).await? != Some(TABLES_VERSION) {
        let migrated = migrate(&client, connector.schema()).await;
        if migrated.is_err() {
            let _gone = client.batch_execute("ROLLBACK").await;
        }
        migrated?;
    }
    let newest = client.query_one("SELECT version FROM commits ORDER BY version DESC LIMIT 1", &[]).await;
    let newest: i64 =
        newest.and_then(|row| row.try_get(0)).map_err(|error| refused("reading the newest version", error))?;
    warn_of_settings(&client).await;
    Ok(newest.unsigned_abs())
}

/// The version of the tables, or `None` where there are none; a newer one than ours is an error.
async fn found(client: &Client, schema: &str) -> Result<Option<i32>, EngineError> {
    let failed = |error| refused("looking for the tables", error);
    // By a look at the catalog itself: name lookups answer from a cache that does not hear of others within a transaction.
    let is_there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'tables')";
    let is_there: bool = client.query_one(is_there, &[&schema]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
    if !is_there {
        return Ok(None);
    }
    let version = client.query_one(&format!("SELECT version FROM \"{schema}\".tables"), &[]).await;
    let found: i32 = version.and_then(|row| row.try_get(0)).map_err(failed)?;
    if found > TABLES_VERSION {
        return Err(EngineError::DatabaseVersion { schema: schema.to_owned(), found, expected: TABLES_VERSION });
    }
    Ok(Some(found))
}

/// One process at a time; those who waited find the work done.
async fn migrate(client: &Client, schema: &str) -> Result<(), EngineError> {
    let failed = |error| refused("making the tables", error);
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('mundi ' || $1, 0))";
    client.query_one(lock, &[&schema]).await.map_err(failed)?;
    let found = found(client, schema).await?;
    if found.is_none() {
        // Asked for only where it is missing: who may use a schema need not be allowed to make one.
        let missing = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let missing: bool =
            client.query_one(missing, &[&schema]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
        let create = if missing { format!("CREATE SCHEMA \"{schema}\";") } else { String::new() };
        let tables = "CREATE TABLE tables (version integer NOT NULL); INSERT INTO tables VALUES (0)";
        client.batch_execute(&format!("{create} {tables}")).await.map_err(failed)?;
    }
    let done = usize::try_from(found.unwrap_or(0)).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        client.batch_execute(step).await.map_err(failed)?;
    }
    client.execute("UPDATE tables SET version = $1", &[&TABLES_VERSION]).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)
}

/// A server that does not sync is not refused, because tests want it; but it is never used unnoticed.
async fn warn_of_settings(client: &Client) {
    for setting in ["fsync", "full_page_writes"] {
        let value = client.query_one("SELECT current_setting($1)", &[&setting]).await;
        if value.is_ok_and(|row| row.try_get::<_, String>(0).is_ok_and(|value| value == "off")) {
            tracing::warn!(setting, "the database runs with this off: acknowledged commits do not survive its crash");
        }
    }
}
