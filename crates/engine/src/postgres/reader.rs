//! A reading connection: its statements and their results. Reads that are made together are one round trip, with one statement for all
//! gets and one for all ranges.

use super::{
    connect::{Connector, Purpose},
    error::refused,
    schema::KEY_BYTES_INDEXED,
};
use crate::{
    EngineError, RangeRead, Read,
    planned_reads::{Found, Items},
};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{join_all, join3, try_join_all},
};
use mundi_model::limits;
use std::collections::BTreeMap;
use tokio_postgres::{Client, Error, Row, Statement};

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
    values: Statement,
    pages: Statement,
}

/// Both tables as one, in order. The second is empty but for keys that no index holds.
fn range_of(order: &str, [start, end, limit]: [&str; 3]) -> String {
    let long = KEY_BYTES_INDEXED;
    format!(
        "SELECT k, v FROM (
             SELECT k, v FROM kv WHERE k >= {start} AND k < {end}
             UNION ALL
             SELECT k, v FROM kv_long WHERE k >= {start} AND k < {end}
                 AND substring(k FROM 1 FOR {long}) >= substring({start} FROM 1 FOR {long})
                 AND substring(k FROM 1 FOR {long}) <= substring({end} FROM 1 FOR {long})
         ) AS items ORDER BY k {order} LIMIT {limit}"
    )
}

/// Ascending pages of any number of ranges, with the number of the range.
fn pages() -> String {
    let page = bounded(&range_of("ASC", ["r.low", "r.high", "r.items_max"]), "ASC");
    format!(
        "SELECT r.number, found.k, found.v
             FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) WITH ORDINALITY AS r (low, high, items_max, number)
             CROSS JOIN LATERAL ({page}) AS found ORDER BY r.number, found.k"
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
        let (ascending, descending) = (range_of("ASC", ["$1", "$2", "$3"]), range_of("DESC", ["$1", "$2", "$3"]));
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
            "SELECT k, v FROM kv WHERE k = ANY($1::bytea[])".to_owned(),
            pages(),
        ];
        let prepared = try_join_all(texts.iter().map(|text| client.prepare(text))).await;
        let prepared = prepared.map_err(|error| refused("preparing to read", error))?;
        let Ok(prepared) = <[Statement; 11]>::try_from(prepared) else {
            return Err(EngineError::Closed); // one statement for each text
        };
        let [newest, get, get_long, ascending_bounded, descending_bounded, ascending, descending, rest @ ..] = prepared;
        let [clock, newest_of, values, pages] = rest;
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
            values,
            pages,
        };
        Ok(Self { client, statements })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Takes a snapshot with its first reads, in one round trip. The version names the snapshot.
    pub(super) async fn begin(&self, reads: &[Read]) -> Result<(u64, Vec<Found>), Error> {
        let begin = self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let newest = self.client.query_one(&self.statements.newest, &[]);
        let (begun, newest, found) = join3(begin, newest, self.read(reads)).await;
        begun?;
        let version: i64 = newest?.try_get(0)?;
        Ok((version.unsigned_abs(), found?))
    }

    /// The server's clock.
    pub(super) async fn now_us(&self) -> Result<i64, Error> {
        self.client.query_one(&self.statements.clock, &[]).await?.try_get(0)
    }

    /// The bytes of the tables and their indexes.
    pub(super) async fn disk_bytes(&self) -> Result<i64, Error> {
        let tables = "SELECT (pg_total_relation_size('kv') + pg_total_relation_size('kv_long') \
                      + pg_total_relation_size('commits'))::bigint";
        self.client.query_one(tables, &[]).await?.try_get(0)
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

    /// Answers all the reads in one round trip.
    pub(super) async fn read(&self, reads: &[Read]) -> Result<Vec<Found>, Error> {
        match reads {
            [read] => Ok(vec![self.read_alone(read).await?]),
            reads => self.read_together(reads).await,
        }
    }

    async fn read_alone(&self, read: &Read) -> Result<Found, Error> {
        let statements = &self.statements;
        match read {
            Read::Get(key) => {
                let statement = if key.len() > KEY_BYTES_INDEXED { &statements.get_long } else { &statements.get };
                let row = self.client.query_opt(statement, &[&&key[..]]).await?;
                Ok(Found::Value(row.map(|row| column(&row, 0)).transpose()?))
            }
            Read::Range(read) => {
                let statement = match (read.limit > ITEMS_UNBOUNDED_MAX, read.reverse) {
                    (false, false) => &statements.ascending,
                    (false, true) => &statements.descending,
                    (true, false) => &statements.ascending_bounded,
                    (true, true) => &statements.descending_bounded,
                };
                let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
                let rows = self.client.query(statement, &[&&read.start[..], &&read.end[..], &limit]).await?;
                let items = rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?)));
                Ok(Found::Items(items.collect::<Result<_, Error>>()?))
            }
        }
    }

    /// Keys that an index holds by one statement, ascending ranges by another, and the few others one by one behind them.
    async fn read_together(&self, reads: &[Read]) -> Result<Vec<Found>, Error> {
        let (mut keys, mut ranges, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (place, read) in reads.iter().enumerate() {
            match read {
                Read::Get(key) if key.len() <= KEY_BYTES_INDEXED => keys.push((place, &key[..])),
                Read::Range(read) if !read.reverse => ranges.push((place, read)),
                _ => others.push((place, read)),
            }
        }
        let alone = join_all(others.iter().map(|(_, read)| self.read_alone(read)));
        let (values, pages, alone) = join3(self.values(&keys), self.pages(&ranges), alone).await;
        let (values, mut found) = (values?, vec![Found::Value(None); reads.len()]);
        for (place, key) in keys {
            found[place] = Found::Value(values.get(key).cloned());
        }
        for ((place, _), items) in ranges.into_iter().zip(pages?) {
            found[place] = Found::Items(items);
        }
        for ((place, _), other) in others.into_iter().zip(alone) {
            found[place] = other?;
        }
        Ok(found)
    }

    async fn values(&self, keys: &[(usize, &[u8])]) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys: Vec<&[u8]> = keys.iter().map(|(_, key)| *key).collect();
        let rows = self.client.query(&self.statements.values, &[&keys]).await?;
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
    }

    async fn pages(&self, ranges: &[(usize, &RangeRead)]) -> Result<Vec<Items>, Error> {
        let mut pages = vec![Items::new(); ranges.len()];
        if ranges.is_empty() {
            return Ok(pages);
        }
        let starts: Vec<&[u8]> = ranges.iter().map(|(_, read)| &read.start[..]).collect();
        let ends: Vec<&[u8]> = ranges.iter().map(|(_, read)| &read.end[..]).collect();
        let limits: Vec<i64> = ranges.iter().map(|(_, read)| i64::try_from(read.limit).unwrap_or(i64::MAX)).collect();
        for row in self.client.query(&self.statements.pages, &[&starts, &ends, &limits]).await? {
            let number: i64 = row.try_get(0)?; // counted from one
            if let Some(page) = usize::try_from(number - 1).ok().and_then(|place| pages.get_mut(place)) {
                page.push((column(&row, 1)?, column(&row, 2)?));
            }
        }
        Ok(pages)
    }
}

fn column(row: &Row, column: usize) -> Result<Bytes, Error> {
    row.try_get::<_, &[u8]>(column).map(Bytes::copy_from_slice)
}

pub(super) fn bytes_of(row: &Row, place: usize) -> Result<Bytes, EngineError> {
    column(row, place).map_err(|error| refused("reading a row", error))
}
