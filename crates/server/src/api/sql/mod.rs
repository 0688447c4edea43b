//! Read-only SQL over a universe.

mod source;
mod tables;

pub use tables::TABLES;

use super::{
    Problem,
    extract::{JsonBody, READ, UniverseScope, text_header},
    fair_slots::{Bounds as SlotBounds, Crowded, FairSlot, FairSlots},
};
use crate::quotas::{Held, Quota};
use axum::{
    Json,
    body::Body,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use mundi_model::{Code, Coded, limits};
use mundi_sql::{Bounds, Flow, IsLate, Source, SqlError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use source::UniverseTables;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};
use utoipa::ToSchema;

/// Rows that wait for a slow reader.
const ROWS_AHEAD: usize = 64;

/// The queries of a process: they share SQLite's memory, so they are counted together.
static SLOTS: LazyLock<Arc<FairSlots>> = LazyLock::new(|| {
    FairSlots::new(SlotBounds {
        at_once: limits::SQL_AT_ONCE_MAX,
        of_universe: limits::SQL_OF_UNIVERSE_MAX,
        waiting_of_universe: limits::SQL_WAITING_OF_UNIVERSE_MAX,
    })
});

/// A query.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlQuery {
    /// One `SELECT`, `WITH`, `VALUES` or `EXPLAIN`.
    query: String,
    /// How long it may take: 30,000 if nothing is said, at most 300,000.
    timeout_ms: Option<u64>,
}

/// The answer, whole.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SqlAnswer {
    columns: Vec<String>,
    /// Values in the order of the columns.
    #[schema(value_type = Vec<Vec<Value>>)]
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Ndjson,
    Csv,
}

impl Form {
    fn of(headers: &HeaderMap) -> Self {
        match text_header(headers, "accept") {
            Some(accept) if accept.contains("ndjson") => Self::Ndjson,
            Some(accept) if accept.contains("text/csv") => Self::Csv,
            _ => Self::Whole,
        }
    }

    /// Streamed results may be long, because nothing keeps them.
    fn bounds(self, time_ms_max: u64) -> Bounds {
        let (rows_max, bytes_max) = match self {
            Self::Whole => (limits::SQL_ROWS_MAX, limits::SQL_BYTES_MAX),
            Self::Ndjson | Self::Csv => (limits::SQL_STREAMED_ROWS_MAX, limits::SQL_STREAMED_BYTES_MAX),
        };
        Bounds { rows_max, bytes_max, time_ms_max, memory_bytes_max: limits::SQL_MEMORY_BYTES_MAX }
    }
}

/// One part of a query's result.
enum Part {
    Columns(Vec<String>),
    Row(Vec<Value>),
    Failed(SqlError),
}

/// Runs a read-only query over the tables of the universe: see the reference of SQL. Asked for `application/x-ndjson` (an object for each row) or `text/csv`,
/// the answer is streamed; a failure in the middle of it is its last line, `{"error": …}`.
#[utoipa::path(
    post, path = "/v1/u/{universe}/sql", operation_id = "sql", tag = "sql", request_body = SqlQuery,
    responses((status = 200, content(
        (SqlAnswer = "application/json"),
        (String = "application/x-ndjson"),
        (String = "text/csv"),
    ))),
)]
pub(super) async fn sql(
    UniverseScope { api, universe, tenant }: UniverseScope<READ>,
    headers: HeaderMap,
    JsonBody(query): JsonBody<SqlQuery>,
) -> Result<Response, Problem> {
    let timeout_ms = query.timeout_ms.unwrap_or(limits::SQL_TIME_MS_DEFAULT);
    if !(1..=limits::SQL_TIME_MS_MAX).contains(&timeout_ms) {
        let max = limits::SQL_TIME_MS_MAX;
        return Err(Problem::invalid(format!("timeout_ms: {timeout_ms}: expected 1 to {max}")));
    }
    let held = api.node.begin(&universe, tenant, Quota::Streams)?;
    let (form, time_max) = (Form::of(&headers), Duration::from_millis(timeout_ms));
    let until = Instant::now() + time_max;
    let crowded = |error: Crowded| Problem::new(Code::SqlTimeout, format!("SQL queries: {error}"));
    let slot = SLOTS.enter(universe.id(), until).await.map_err(crowded)?;
    let runtime = Handle::current();
    let (sender, mut parts) = mpsc::channel(ROWS_AHEAD);
    // A reader that is gone ends the query, whatever it is doing.
    let reader = sender.clone();
    let is_late: IsLate = Arc::new(move || Instant::now() > until || reader.is_closed());
    let tables = UniverseTables { universe, runtime: runtime.clone(), is_late: is_late.clone(), timeout_ms };
    let bounds = form.bounds(timeout_ms);
    tokio::task::spawn_blocking(move || {
        let tables: Arc<dyn Source> = Arc::new(tables);
        run(&tables, &query.query, (bounds, &is_late), (slot, until), &Rows { runtime, sender });
    });
    // What fails before the first row is a refusal.
    let columns = match parts.recv().await {
        Some(Part::Columns(columns)) => columns,
        Some(Part::Failed(error)) => return Err(refused(&error)),
        Some(Part::Row(_)) | None => return Err(Problem::new(Code::EngineFailed, "the query ended without an answer")),
    };
    match form {
        Form::Whole => whole(columns, parts).await,
        Form::Ndjson | Form::Csv => {
            let first = parts.recv().await;
            if let Some(Part::Failed(error)) = &first {
                return Err(refused(error));
            }
            Ok(streamed(form, columns, first, parts, held))
        }
    }
}

/// Where a query's thread puts what it finds.
struct Rows {
    runtime: Handle,
    sender: mpsc::Sender<Part>,
}

impl Rows {
    /// Waits for a slow reader until the query has had its time.
    fn give(&self, part: Part, until: Instant) -> Flow {
        let part = match self.sender.try_send(part) {
            Ok(()) => return Flow::More,
            Err(TrySendError::Closed(_)) => return Flow::Enough,
            Err(TrySendError::Full(part)) => part,
        };
        let left = until.saturating_duration_since(Instant::now());
        let given = self.runtime.block_on(self.sender.send_timeout(part, left));
        if given.is_ok() { Flow::More } else { Flow::Enough }
    }
}

/// On a thread of its own. Thread and slot are free for others when the query has had its time, also if nobody reads on.
fn run(
    tables: &Arc<dyn Source>,
    text: &str,
    (bounds, is_late): (Bounds, &IsLate),
    (slot, until): (FairSlot, Instant),
    rows: &Rows,
) {
    let ran = mundi_sql::run(
        &TABLES,
        tables,
        text,
        (bounds, is_late),
        &mut |columns| rows.give(Part::Columns(columns.to_vec()), until),
        &mut |row| rows.give(Part::Row(row), until),
    );
    drop(slot);
    let failed = match ran {
        Ok(()) => return,
        Err(SqlError::Abandoned) => SqlError::TooLong { ms: bounds.time_ms_max },
        Err(error) => error,
    };
    // Without its error an answer would look whole: a slow reader gets it when it reads on.
    let sender = rows.sender.clone();
    rows.runtime.spawn(async move { sender.send(Part::Failed(failed)).await });
}

fn refused(error: &SqlError) -> Problem {
    Problem::new(error.code(), error.to_string())
}

async fn whole(columns: Vec<String>, mut parts: mpsc::Receiver<Part>) -> Result<Response, Problem> {
    let mut rows = Vec::new();
    while let Some(part) = parts.recv().await {
        match part {
            Part::Row(row) => rows.push(row),
            Part::Failed(error) => return Err(refused(&error)),
            Part::Columns(_) => {}
        }
    }
    Ok(Json(SqlAnswer { columns, rows }).into_response())
}

fn streamed(
    form: Form,
    columns: Vec<String>,
    first: Option<Part>,
    parts: mpsc::Receiver<Part>,
    held: Held,
) -> Response {
    let kind = if form == Form::Csv { "text/csv; charset=utf-8" } else { "application/x-ndjson" };
    let head = (form == Form::Csv).then(|| Ok::<_, std::convert::Infallible>(Bytes::from(csv_line(columns.iter()))));
    let rest = stream::unfold((parts, held), async |(mut parts, held)| Some((parts.recv().await?, (parts, held))));
    let lines = stream::iter(first).chain(rest).map(move |part| Ok(Bytes::from(line(form, &columns, part))));
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(stream::iter(head).chain(lines))).into_response()
}

fn line(form: Form, columns: &[String], part: Part) -> String {
    match (part, form) {
        (Part::Failed(error), _) => {
            format!("{}\n", json!({ "error": { "code": error.code().as_str(), "detail": error.to_string() } }))
        }
        (Part::Row(row), Form::Csv) => csv_line(row.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })),
        (Part::Row(row), _) => {
            let object: serde_json::Map<String, Value> = columns.iter().cloned().zip(row).collect();
            format!("{}\n", Value::Object(object))
        }
        (Part::Columns(_), _) => String::new(),
    }
}

/// A line as RFC 4180 writes it.
fn csv_line(fields: impl Iterator<Item = impl AsRef<str>>) -> String {
    let quoted = |field: &str| match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    };
    let fields: Vec<String> = fields.map(|field| quoted(field.as_ref())).collect();
    format!("{}\r\n", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_quote_or_a_comma_is_quoted() {
        assert_eq!(csv_line(["a", "b,c", "d\"e"].iter()), "a,\"b,c\",\"d\"\"e\"\r\n");
    }
}
