//! The committing connection: a group is two round trips, with the head locked in between; or one, if no lookup is needed.

use super::{
    conflict_window::News,
    connect::{Connector, Purpose},
    error::refused,
    footprint,
    reader::bytes_of,
    schema::KEY_BYTES_INDEXED,
};
use crate::{EngineError, recent::Writes};
use bytes::Bytes;
use futures_util::future::{join, join_all, join3, join5, try_join_all};
use mundi_model::limits;
use std::collections::BTreeMap;
use tokio_postgres::{Client, Error, Row, Statement};

pub(super) struct Writer {
    client: Client,
    statements: Statements,
    channel: String,
}

struct Statements {
    lock: Statement,
    news: Statement,
    values: Statement,
    values_long: Statement,
    range: Statement,
    put_new: Statement,
    put: Statement,
    put_long: Statement,
    delete: Statement,
    delete_long: Statement,
    note: Statement,
    note_next: Statement,
}

/// The lookups of a group before it is put in order.
#[derive(Default)]
pub(super) struct Question {
    /// Versions up to this one are known.
    pub(super) known: u64,
    /// Keys whose values are added to.
    pub(super) counters: Vec<Bytes>,
    /// Ranges that are deleted.
    pub(super) ranges: Vec<(Bytes, Bytes)>,
}

impl Question {
    /// Whether there is nothing to ask but whether anyone has committed.
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.ranges.is_empty()
    }
}

/// The newest state, of which nothing changes before the group is committed or let go.
pub(super) struct Locked {
    pub(super) news: Vec<News>,
    pub(super) counters: BTreeMap<Bytes, Bytes>,
    /// The keys in each range.
    pub(super) ranges: Vec<Vec<Bytes>>,
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

fn statements() -> [String; 12] {
    let long = KEY_BYTES_INDEXED;
    let deleted_max = limits::TRANSACTION_BYTES_MAX;
    let keys_max = limits::TRANSACTION_OPERATIONS_MAX + 1;
    [
        "SELECT one FROM head FOR UPDATE".to_owned(),
        "SELECT version, footprint FROM commits WHERE version > $1 ORDER BY version".to_owned(),
        "SELECT k, v FROM kv WHERE k = ANY($1::bytea[])".to_owned(),
        "SELECT k, v FROM kv_long WHERE sha256(k) = ANY(SELECT sha256(key) FROM unnest($1::bytea[]) AS key)
             AND k = ANY($1::bytea[])"
            .to_owned(),
        // No more than a transaction may delete, and one key beyond it, so that too much is seen to be too much.
        format!(
            "SELECT k FROM (
                 SELECT k, sum(octet_length(k)) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) - octet_length(k) AS before
                 FROM (
                     SELECT k FROM kv WHERE k >= $1 AND k < $2
                     UNION ALL
                     SELECT k FROM kv_long WHERE k >= $1 AND k < $2
                         AND substring(k FROM 1 FOR {long}) >= substring($1 FROM 1 FOR {long})
                         AND substring(k FROM 1 FOR {long}) <= substring($2 FROM 1 FOR {long})
                     ORDER BY k LIMIT {keys_max}
                 ) AS keys
             ) AS summed WHERE before <= {deleted_max}"
        ),
        "INSERT INTO kv (k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[])".to_owned(),
        "INSERT INTO kv (k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[])
             ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v"
            .to_owned(),
        "INSERT INTO kv_long (k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[])
             ON CONFLICT (sha256(k)) DO UPDATE SET v = EXCLUDED.v"
            .to_owned(),
        "DELETE FROM kv WHERE k = ANY($1::bytea[])".to_owned(),
        "DELETE FROM kv_long WHERE sha256(k) = ANY(SELECT sha256(key) FROM unnest($1::bytea[]) AS key)
             AND k = ANY($1::bytea[])"
            .to_owned(),
        "INSERT INTO commits (version, footprint) VALUES ($1, $2)".to_owned(),
        // An error, which takes the whole group back, unless the version before it is the newest.
        "INSERT INTO commits (version, footprint) SELECT $1::bigint / (
             (SELECT version FROM commits ORDER BY version DESC LIMIT 1) = $1::bigint - 1 AND EXISTS (SELECT FROM head)
         )::int, $2"
            .to_owned(),
    ]
}

impl Writer {
    /// Connects on the runtime of the caller.
    pub(super) async fn connect(connector: &Connector) -> Result<Self, EngineError> {
        let client = connector.connect_here(Purpose::Commit).await?;
        let texts = statements();
        let prepared = try_join_all(texts.iter().map(|text| client.prepare(text))).await;
        let prepared = prepared.map_err(|error| refused("preparing to commit", error))?;
        let Ok([lock, news, values, values_long, range, put_new, put, put_long, delete, delete_long, note, note_next]) =
            <[Statement; 12]>::try_from(prepared)
        else {
            return Err(EngineError::Closed); // one statement for each text
        };
        let statements = Statements {
            lock,
            news,
            values,
            values_long,
            range,
            put_new,
            put,
            put_long,
            delete,
            delete_long,
            note,
            note_next,
        };
        let own = client.query_one("SELECT pg_backend_pid()", &[]).await.and_then(|row| row.try_get(0));
        connector.commits_by(own.map_err(|error| refused("preparing to commit", error))?);
        Ok(Self { client, statements, channel: connector.channel() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Locks the head and asks. Each statement sees what was committed before it began, and all but the first begin
    /// after the lock is held: they are sent together, and answered in order.
    pub(super) async fn lock(&self, question: &Question) -> Result<Locked, EngineError> {
        let failed = |error| refused("locking the head", error);
        let statements = &self.statements;
        let known = i64::try_from(question.known).unwrap_or(i64::MAX);
        let begin = self.client.batch_execute(BEGIN);
        let lock = self.client.query(&statements.lock, &[]);
        let news_parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&known];
        let news = self.client.query(&statements.news, &news_parameters);
        let asked = join(self.counters(&question.counters), self.ranges(&question.ranges));
        let (begun, locked, (news, (counters, ranges))) = join3(begin, lock, join(news, asked)).await;
        begun.map_err(failed)?;
        if locked.map_err(failed)?.len() != 1 {
            let what = "the row of the table `head` is missing, by which commits are put in order".to_owned();
            return Err(EngineError::DatabaseInvalid { what });
        }
        let news = news.map_err(failed)?.iter().map(news_of).collect::<Result<_, _>>()?;
        let counters = counters.map_err(failed)?;
        let counters = counters.iter().map(|row| Ok((bytes_of(row, 0)?, bytes_of(row, 1)?)));
        let ranges = ranges.map_err(failed)?.into_iter().map(|rows| rows.iter().map(|row| bytes_of(row, 0)).collect());
        Ok(Locked {
            news,
            counters: counters.collect::<Result<_, EngineError>>()?,
            ranges: ranges.collect::<Result<_, EngineError>>()?,
        })
    }

    async fn counters(&self, keys: &[Bytes]) -> Result<Vec<Row>, Error> {
        let (short, long): (Vec<&[u8]>, Vec<&[u8]>) =
            keys.iter().map(|key| &key[..]).partition(|key| key.len() <= KEY_BYTES_INDEXED);
        let (short, long) = join(
            self.query_unless_empty(&self.statements.values, &short),
            self.query_unless_empty(&self.statements.values_long, &long),
        )
        .await;
        let mut rows = short?;
        rows.extend(long?);
        Ok(rows)
    }

    async fn query_unless_empty(&self, statement: &Statement, keys: &[&[u8]]) -> Result<Vec<Row>, Error> {
        if keys.is_empty() { Ok(Vec::new()) } else { self.client.query(statement, &[&keys]).await }
    }

    async fn ranges(&self, ranges: &[(Bytes, Bytes)]) -> Result<Vec<Vec<Row>>, Error> {
        let asked = ranges.iter().map(|(start, end)| async {
            let (start, end) = (&start[..], &end[..]);
            self.client.query(&self.statements.range, &[&start, &end]).await
        });
        join_all(asked).await.into_iter().collect()
    }

    /// Lets the head go; nothing was written.
    pub(super) async fn release(&self) -> Result<(), Error> {
        self.client.batch_execute("ROLLBACK").await
    }

    /// Writes the group behind what [`Self::lock`] has found, and commits it. An error of a statement makes the COMMIT behind it
    /// a rollback, after which the session is as before.
    pub(super) async fn commit(&self, version: u64, writes: &Writes) -> Result<(), Error> {
        self.write(&self.statements.note, version, writes, &[]).await
    }

    /// Locks the head, writes and commits, in one round trip. An error of the database if the version before this one is not
    /// the newest, or if one of the keys that are said to be `new`, in order, is not: then nothing is written. (What need not
    /// be looked for first is written at two thirds of the cost.)
    pub(super) async fn commit_at_once(&self, version: u64, writes: &Writes, new: &[Bytes]) -> Result<(), Error> {
        let begin = self.client.batch_execute(BEGIN);
        let lock = self.client.query(&self.statements.lock, &[]);
        let write = self.write(&self.statements.note_next, version, writes, new);
        let (begun, locked, written) = join3(begin, lock, write).await;
        begun.and(locked.map(drop)).and(written)
    }

    async fn write(&self, note: &Statement, version: u64, writes: &Writes, new: &[Bytes]) -> Result<(), Error> {
        let is_short = |key: &[u8]| key.len() <= KEY_BYTES_INDEXED;
        let is_new = |key: &[u8]| new.binary_search_by(|new| new[..].cmp(key)).is_ok();
        let (mut new_puts, mut puts, mut long_puts) = (Puts::default(), Puts::default(), Puts::default());
        let (mut deletes, mut long_deletes) = (Vec::new(), Vec::new());
        for (key, value) in writes {
            let key = &key[..];
            match value {
                Some(value) if is_short(key) && is_new(key) => new_puts.push(key, value),
                Some(value) if is_short(key) => puts.push(key, value),
                Some(value) => long_puts.push(key, value),
                None if is_short(key) => deletes.push(key),
                None => long_deletes.push(key),
            }
        }
        let statements = &self.statements;
        let footprint = footprint::encode(writes.iter().map(|(key, _)| key));
        let notify = format!("NOTIFY \"{}\", '{version}'", self.channel);
        // COMMIT is a message of its own: behind another statement in the same one it would not be reached after an error, and
        // the session would stay in a transaction that has failed.
        let (outcomes, notified, committed) = join3(
            join5(
                join(self.note(note, version, &footprint), self.put(&statements.put_new, &new_puts)),
                self.put(&statements.put, &puts),
                self.put(&statements.put_long, &long_puts),
                self.delete(&statements.delete, &deletes),
                self.delete(&statements.delete_long, &long_deletes),
            ),
            self.client.batch_execute(&notify),
            self.client.batch_execute("COMMIT"),
        )
        .await;
        let ((noted, put_new), put, put_long, delete, delete_long) = outcomes;
        noted.and(put_new).and(put).and(put_long).and(delete).and(delete_long).and(notified).and(committed)
    }

    async fn put(&self, statement: &Statement, puts: &Puts<'_>) -> Result<(), Error> {
        if puts.keys.is_empty() {
            return Ok(());
        }
        self.client.execute(statement, &[&puts.keys, &puts.values]).await.map(drop)
    }

    async fn delete(&self, statement: &Statement, keys: &[&[u8]]) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        self.client.execute(statement, &[&keys]).await.map(drop)
    }

    async fn note(&self, note: &Statement, version: u64, footprint: &[u8]) -> Result<(), Error> {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        self.client.execute(note, &[&version, &footprint]).await.map(drop)
    }
}

/// Leaves versions out, so that the next one is above this one. Processes that run notice the gap, as if they had slept.
pub(super) async fn raise_version(connector: &Connector, version: u64) -> Result<(), EngineError> {
    let failed = |error| refused("raising the version", error);
    let client = connector.connect(Purpose::Commit).await?;
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    client.batch_execute("BEGIN; SELECT one FROM head FOR UPDATE").await.map_err(failed)?;
    let raise = "INSERT INTO commits (version, footprint)
         SELECT $1, '' WHERE NOT EXISTS (SELECT FROM commits WHERE version >= $1)";
    client.execute(raise, &[&version]).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)
}

#[derive(Default)]
struct Puts<'a> {
    keys: Vec<&'a [u8]>,
    values: Vec<&'a [u8]>,
}

impl<'a> Puts<'a> {
    fn push(&mut self, key: &'a [u8], value: &'a [u8]) {
        self.keys.push(key);
        self.values.push(value);
    }
}

/// A row of `commits`.
pub(super) fn news_of(row: &Row) -> Result<News, EngineError> {
    let failed = |error| refused("reading what was committed", error);
    let version: i64 = row.try_get(0).map_err(failed)?;
    let footprint: &[u8] = row.try_get(1).map_err(failed)?;
    let writes = footprint::decode(footprint).ok_or_else(|| {
        let what = format!("the footprint of version {version} is not what was written");
        EngineError::DatabaseInvalid { what }
    })?;
    Ok((version.unsigned_abs(), writes))
}
