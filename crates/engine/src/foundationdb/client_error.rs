//! Errors of the client library as errors of an engine.

use super::codes::{ReadFailure, read_failure};
use crate::EngineError;
use foundationdb::FdbError;
use std::sync::Arc;

/// An error that surely left nothing behind.
pub(super) fn refused(doing: &str, error: FdbError) -> EngineError {
    match read_failure(error.code()) {
        ReadFailure::TooOld => EngineError::TooOld,
        ReadFailure::Passes | ReadFailure::Unavailable => unavailable(doing, error),
        ReadFailure::Invalid => EngineError::DatabaseInvalid { what: format!("{doing}: {}", described(error)) },
        ReadFailure::Fault => EngineError::failed(doing, Described(error)),
    }
}

pub(super) fn unavailable(doing: &str, error: FdbError) -> EngineError {
    EngineError::DatabaseUnavailable { doing: doing.to_owned(), cause: Arc::new(Described(error)) }
}

/// With its code, by which its documentation is found.
#[derive(Debug, thiserror::Error)]
#[error("{}", described(*.0))]
struct Described(FdbError);

fn described(error: FdbError) -> String {
    format!("{} ({})", error.message(), error.code())
}
