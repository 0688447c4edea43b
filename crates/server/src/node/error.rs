//! Why a node could not do what was asked.

use crate::config::ConfigError;
use mundi_engine::EngineError;
use mundi_model::{Code, Coded, ProgramNameInvalid, limits};
use mundi_runtime::RuntimeError;
use mundi_store::{StoreError, objects::OpenError, transfer::TransferError};
use std::path::Path;

#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Objects(#[from] OpenError),
    #[error(transparent)]
    Config(ConfigError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error("the folder {path} cannot be used: {cause}")]
    Folder { path: String, cause: String, code: Code },
    #[error("`{0}` is no name for a universe: 1 to {max} of a-z, 0-9 and -", max = limits::UNIVERSE_NAME_BYTES_MAX)]
    NameInvalid(String),
    #[error("no program is called `{0}` here")]
    ProgramUnknown(String),
    #[error(transparent)]
    ProgramName(ProgramNameInvalid),
    #[error("`{0}` comes with this server: its versions are neither given nor deleted; choose another name")]
    ProgramBuiltIn(String),
    #[error("the HTTP client could not be made: {0}")]
    HttpClient(String),
    #[error("the world answered {code}: {reason}")]
    CallFailed { code: String, reason: String },
    #[error("the reply cannot be read: {0}")]
    ReplyUnreadable(String),
    #[error("a task panicked: {0}")]
    Panicked(String),
    #[error("the node is stopped")]
    Stopped,
}

impl NodeError {
    pub(crate) fn folder(path: &Path, cause: &std::io::Error) -> Self {
        Self::Folder { path: path.display().to_string(), cause: cause.to_string(), code: Code::of_folder(cause.kind()) }
    }
}

impl Coded for NodeError {
    fn code(&self) -> Code {
        match self {
            Self::Runtime(error) => error.code(),
            Self::Objects(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Transfer(error) => error.code(),
            Self::Folder { code, .. } => *code,
            Self::NameInvalid(_) => Code::NameInvalid,
            Self::ProgramUnknown(_) => Code::ProgramUnknown,
            Self::ProgramName(error) => error.code(),
            Self::ProgramBuiltIn(_) => Code::NameInvalid,
            Self::HttpClient(_) => Code::ConfigInvalid,
            Self::CallFailed { code, .. } => Code::from_name(code).unwrap_or(Code::ProgramFailed),
            Self::ReplyUnreadable(_) => Code::CborMalformed,
            Self::Panicked(_) => Code::EngineFailed,
            Self::Stopped => Code::NodeDraining,
        }
    }
}

impl From<StoreError> for NodeError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<EngineError> for NodeError {
    fn from(error: EngineError) -> Self {
        Self::Runtime(error.into())
    }
}
