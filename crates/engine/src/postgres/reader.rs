//! A connection that reads: the statements, and what they give.

use super::{
    connect::{Connector, Purpose},
    error::refused,
    schema::KEY_BYTES_INDEXED,
};
use crate::{EngineError, RangeRead};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{join3, try_join_all},
};
use mundi_model::limits;
use tokio_postgres::{Client, Error, Row, Statement};

/// A read of the snapshot, without the transaction's own writes.
#[derive(Debug, Clone)]
pub(super) enum Read {
    Get(Bytes),
    Range(RangeRead),
}

/// So many items of the largest size fit a page; a read that asks for more is bounded in bytes, too.
const ITEMS_UNBOUNDED_MAX: usize = limits::RANGE_BYTES_MAX / (limits::VALUE_BYTES_MAX + limits::KEY_BYTES_MAX);

pub(super) struct Reader {
    client: Client,
    statements: Statements,
}

struct Statements {
    newest: Statement,
    get: Statement,
    get_long: Statement,
    ascending: Statement,
    descending: Statement,
    ascending_bounded: Statement,
    descending_bounded: Statement,
    clock: Statement,
    newest_of: Statement,
}

/// Both tables as one, in order. The second is empty but for keys that no index holds.
fn range_of(order: &str) -> String {
    format!(
        "SELECT k, v FROM (
             SELECT k, v FROM kv WHERE k >= $1 AND k < $2
             UNION ALL
             SELECT k, v FROM kv_long WHERE k >= $1 AND k < $2
                 AND substring(k FROM 1 FOR {KEY_BYTES_INDEXED}) >= substring($1 FROM 1 FOR {KEY_BYTES_INDEXED})
                 AND substring(k FROM 1 FOR {KEY_BYTES_INDEXED}) <= substring($2 FROM 1 FOR {KEY_BYTES_INDEXED})
         ) AS items ORDER BY k {order} LIMIT $3"
    )
}

/// Ends with the item that reaches the bound. Sizes are known without reading the values.
fn bounded(range: &str, order: &str) -> String {
    let (bytes, max) = ("octet_length(k) + octet_length(v)", limits::RANGE_BYTES_MAX);
    format!(
        "SELECT k, v FROM (
             SELECT k, v, sum({bytes}) OVER (ORDER BY k {order} ROWS UNBOUNDED PRECEDING) - ({bytes}) AS before
             FROM ({range}) AS page
         ) AS summed WHERE before < {max} ORDER BY k {order}"
    )
}

impl Reader {
    pub(super) async fn connect(connector: &Connector) -> Result<Self, EngineError> {
        let client = connector.connect(Purpose::Read).await?;
        let (ascending, descending) = (range_of("ASC"), range_of("DESC"));
        let texts = [
            "SELECT version FROM commits ORDER BY version DESC LIMIT 1".to_owned(),
            "SELECT v FROM kv WHERE k = $1".to_owned(),
            "SELECT v FROM kv_long WHERE sha256(k) = sha256($1) AND k = $1".to_owned(),
            bounded(&ascending, "ASC"),
            bounded(&descending, "DESC"),
            ascending,
            descending,
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint".to_owned(),
            // One statement is one snapshot. There is a row also if there is no key.
            "SELECT version, k, v FROM (SELECT version FROM commits ORDER BY version DESC LIMIT 1) AS newest
                 LEFT JOIN kv ON k = ANY($1::bytea[])"
                .to_owned(),
        ];
        let prepared = try_join_all(texts.iter().map(|text| client.prepare(text))).await;
        let prepared = prepared.map_err(|error| refused("preparing to read", error))?;
        let Ok([newest, get, get_long, ascending_bounded, descending_bounded, ascending, descending, clock, newest_of]) =
            <[Statement; 9]>::try_from(prepared)
        else {
            return Err(EngineError::Closed); // one statement for each text
        };
        let statements = Statements {
            newest,
            get,
            get_long,
            ascending,
            descending,
            ascending_bounded,
            descending_bounded,
            clock,
            newest_of,
        };
        Ok(Self { client, statements })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Takes a snapshot with its first read, in one round trip. The version names the snapshot.
    pub(super) async fn begin(&self, read: &Read) -> Result<(u64, Vec<Row>), Error> {
        let begin = self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let newest = self.client.query_one(&self.statements.newest, &[]);
        let (begun, newest, rows) = join3(begin, newest, self.rows(read)).await;
        begun?;
        let version: i64 = newest?.try_get(0)?;
        Ok((version.unsigned_abs(), rows?))
    }

    /// The server's clock.
    pub(super) async fn now_us(&self) -> Result<i64, Error> {
        self.client.query_one(&self.statements.clock, &[]).await?.try_get(0)
    }

    /// The newest version, with each of the keys that is there.
    pub(super) async fn newest(&self, keys: &[Bytes]) -> Result<Vec<Row>, Error> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        self.client.query(&self.statements.newest_of, &[&keys]).await
    }

    /// Ends the snapshot. The answer is not waited for: the connection answers in order.
    pub(super) fn end(&self) {
        let _sent = self.client.batch_execute("COMMIT").now_or_never();
    }

    pub(super) async fn rows(&self, read: &Read) -> Result<Vec<Row>, Error> {
        let statements = &self.statements;
        match read {
            Read::Get(key) => {
                let statement = if key.len() > KEY_BYTES_INDEXED { &statements.get_long } else { &statements.get };
                self.client.query(statement, &[&&key[..]]).await
            }
            Read::Range(read) => {
                let statement = match (read.limit > ITEMS_UNBOUNDED_MAX, read.reverse) {
                    (false, false) => &statements.ascending,
                    (false, true) => &statements.descending,
                    (true, false) => &statements.ascending_bounded,
                    (true, true) => &statements.descending_bounded,
                };
                let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
                self.client.query(statement, &[&&read.start[..], &&read.end[..], &limit]).await
            }
        }
    }
}

/// The value that a get gave.
pub(super) fn value_of(rows: &[Row]) -> Result<Option<Bytes>, EngineError> {
    rows.first().map(|row| bytes_of(row, 0)).transpose()
}

/// The items that a range read gave.
pub(super) fn items_of(rows: &[Row]) -> Result<Vec<(Bytes, Bytes)>, EngineError> {
    rows.iter().map(|row| Ok((bytes_of(row, 0)?, bytes_of(row, 1)?))).collect()
}

pub(super) fn bytes_of(row: &Row, column: usize) -> Result<Bytes, EngineError> {
    let bytes: &[u8] = row.try_get(column).map_err(|error| refused("reading a row", error))?;
    Ok(Bytes::copy_from_slice(bytes))
}
