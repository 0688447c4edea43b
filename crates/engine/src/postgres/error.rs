//! Classifies errors of the database: surely not applied, or perhaps applied.

use crate::EngineError;
use std::sync::Arc;
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

/// Whether the same may go well a little later: the server starts, stops, is full, or cannot be reached.
pub(super) fn passes(error: &Error) -> bool {
    match error.as_db_error().map(DbError::code) {
        None => !is_refusal_of_ours(error),
        Some(code) => {
            let class = &code.code()[..2];
            matches!(class, "08" | "53" | "55" | "57" | "40" | "25") && *code != SqlState::DISK_FULL
        }
    }
}

/// Errors that this side finds, and that stay: TLS refused, a wrong password's form, a URL that lacks something.
fn is_refusal_of_ours(error: &Error) -> bool {
    let text = error.to_string();
    !error.is_closed()
        && (text.starts_with("error performing TLS handshake") || text.starts_with("authentication error"))
}

/// An error that surely left nothing behind.
pub(super) fn refused(doing: &str, error: Error) -> EngineError {
    let Some(told) = error.as_db_error() else {
        return if passes(&error) { unavailable(doing, error) } else { invalid(doing, &error) };
    };
    let code = told.code().code();
    match &code[..2] {
        _ if *told.code() == SqlState::DISK_FULL => {
            EngineError::DiskFull(Arc::new(std::io::Error::other(format!("{doing}: {told}"))))
        }
        "28" | "3D" | "3F" | "42" | "0A" => invalid(doing, &error),
        _ if passes(&error) => unavailable(doing, error),
        _ => EngineError::failed(doing, error),
    }
}

/// Whether a transaction whose COMMIT was sent, and which was answered with this, has surely not been applied.
///
/// An error of a statement makes the COMMIT a rollback. A session that the server ended may have been ended after it.
pub(super) fn surely_not_applied(error: &Error) -> bool {
    error.as_db_error().is_some_and(|told| {
        let waited_too_long = *told.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
        let open_ended = matches!(told.code().code(), "40003" | "08007");
        let is_statement = told.parsed_severity().is_none_or(|severity| severity == Severity::Error);
        waited_too_long || (is_statement && !open_ended)
    })
}

fn unavailable(doing: &str, cause: Error) -> EngineError {
    EngineError::DatabaseUnavailable { doing: doing.to_owned(), cause: Arc::new(cause) }
}

fn invalid(doing: &str, error: &Error) -> EngineError {
    let cause = error.as_db_error().map_or_else(|| in_full(error), ToString::to_string);
    EngineError::DatabaseInvalid { what: format!("{doing}: {cause}") }
}

/// With its causes: the outermost says little.
fn in_full(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
