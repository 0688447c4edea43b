//! Why a query ended early.

use mundi_model::{Code, Coded};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// SQLite's error about the text, or about an argument.
    #[error("{0}")]
    Invalid(String),
    #[error("the query gave more than {max} {what}; ask for less, or use LIMIT")]
    TooMuch { what: &'static str, max: u64 },
    #[error("the query took longer than {ms} ms; narrow it down, or give it more time")]
    TooLong { ms: u64 },
    #[error("the query needs more memory than SQLite may use here: sort, group or join less")]
    NoMemory,
    /// The source failed, with its own code.
    #[error("{detail}")]
    Source { code: Code, detail: String },
    #[error("nobody reads the answer any more")]
    Abandoned,
}

impl Coded for SqlError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::SqlInvalid,
            Self::TooMuch { .. } | Self::NoMemory => Code::SqlTooLarge,
            Self::TooLong { .. } | Self::Abandoned => Code::SqlTimeout,
            Self::Source { code, .. } => *code,
        }
    }
}
