//! Why a step is given up.

use std::fmt;

/// A program's own reason to give up a step or a query. Any error becomes one, so `?` works on all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    /// The code on record. A program's own is `PROGRAM_FAILED`; a test world also answers with the codes of the server.
    pub code: &'static str,
}

impl Failure {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), code: "PROGRAM_FAILED" }
    }

    pub(crate) fn coded(code: &'static str, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), code }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
