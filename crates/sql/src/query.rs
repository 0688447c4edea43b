//! Run one query within its bounds.

use crate::{
    Source, SqlError, Table,
    vtab::{Failure, Given, register},
};
use rusqlite::{
    Connection, ErrorCode,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::ValueRef,
};
use serde_json::Value;
use std::sync::{Arc, PoisonError};

/// Bounds of one query.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub rows_max: u64,
    /// Of the answer, as text.
    pub bytes_max: u64,
    /// Only for the error: what is late, the caller says.
    pub time_ms_max: u64,
    /// The memory that all queries of the process may use in SQLite together.
    pub memory_bytes_max: u64,
}

/// Whether whoever gets the rows wants more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    Enough,
}

/// Whether a query has had its time. This crate has no clock.
pub type IsLate = Arc<dyn Fn() -> bool + Send + Sync>;

/// Instructions of SQLite's machine between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// The longest text of a query, and the longest value in one.
const TEXT_BYTES_MAX: i32 = 64 * 1024;
const VALUE_BYTES_MAX: i32 = 16 << 20;

/// Runs a query on this thread. The names of the columns come first, then the rows, one by one.
pub fn run(
    tables: &[&'static Table],
    source: &Arc<dyn Source>,
    text: &str,
    (bounds, is_late): (Bounds, &IsLate),
    columns: &mut dyn FnMut(&[String]) -> Flow,
    row: &mut dyn FnMut(Vec<Value>) -> Flow,
) -> Result<(), SqlError> {
    let failure = Failure::default();
    let ran = (|| {
        let mut connection = open(bounds)?;
        for table in tables {
            register(&connection, Given { table, source: source.clone(), failure: failure.clone() })?;
        }
        connection.authorizer(Some(authorize))?;
        let watch = is_late.clone();
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || watch()))?;
        read(&connection, text, (bounds, is_late), columns, row)
    })();
    match ran {
        Ok(ended) => ended,
        Err(error) => match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Err(refused(&error, bounds)),
        },
    }
}

/// A database in memory without a table of its own.
fn open(bounds: Bounds) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection
        .execute_batch(&format!("PRAGMA hard_heap_limit = {}; PRAGMA cache_size = -2000;", bounds.memory_bytes_max))?;
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_SQL_LENGTH, TEXT_BYTES_MAX),
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    ] {
        connection.set_limit(limit, max)?;
    }
    Ok(connection)
}

/// A query reads, and calls functions that only compute.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if function_name != "load_extension" => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn read(
    connection: &Connection,
    text: &str,
    (bounds, is_late): (Bounds, &IsLate),
    columns: &mut dyn FnMut(&[String]) -> Flow,
    give: &mut dyn FnMut(Vec<Value>) -> Flow,
) -> rusqlite::Result<Result<(), SqlError>> {
    let mut statement = connection.prepare(text)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    if columns(&names) == Flow::Enough {
        return Ok(Err(SqlError::Abandoned));
    }
    let (mut count, mut bytes, mut rows) = (0, 0, statement.query([])?);
    while let Some(row) = rows.next()? {
        count += 1;
        if count > bounds.rows_max {
            return Ok(Err(SqlError::TooMuch { what: "rows", max: bounds.rows_max }));
        }
        let mut values = Vec::with_capacity(names.len());
        for at in 0..names.len() {
            let value = row.get_ref(at)?;
            bytes += size(value);
            values.push(json(value));
        }
        if bytes > bounds.bytes_max {
            return Ok(Err(SqlError::TooMuch { what: "bytes", max: bounds.bytes_max }));
        }
        if give(values) == Flow::Enough {
            return Ok(Err(SqlError::Abandoned));
        }
        if is_late() {
            return Ok(Err(too_long(bounds)));
        }
    }
    Ok(Ok(()))
}

fn size(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Text(text) | ValueRef::Blob(text) => text.len() as u64,
        _ => 8,
    }
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => mundi_model::hex(bytes).into(),
    }
}

fn too_long(bounds: Bounds) -> SqlError {
    SqlError::TooLong { ms: bounds.time_ms_max }
}

fn refused(error: &rusqlite::Error, bounds: Bounds) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => too_long(bounds),
        Some(ErrorCode::OutOfMemory) => SqlError::NoMemory,
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            SqlError::Invalid("only queries are allowed: SELECT, WITH, EXPLAIN".to_owned())
        }
        Some(ErrorCode::TooBig) => {
            SqlError::TooMuch { what: "bytes in one value", max: VALUE_BYTES_MAX.unsigned_abs().into() }
        }
        _ => SqlError::Invalid(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
