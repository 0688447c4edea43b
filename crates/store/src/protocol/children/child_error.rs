//! Why a child is not changed.

use mundi_model::{Code, Coded, WorldId, child::ChildId};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    #[error("{parent} has no child {child}, or does not keep it any more")]
    NotFound { parent: WorldId, child: ChildId },
    #[error("{0} is no child of another world")]
    NoChild(WorldId),
    #[error("the lease of {0} is not held any more, or the child is in another phase")]
    ClaimLost(ChildId),
    #[error("the children of {parent} contradict each other: {reason}")]
    Violation { parent: WorldId, code: Code, reason: String },
    #[error("the parameters of {child} cannot be used: {reason}")]
    SpecInvalid { child: ChildId, code: Code, reason: String },
    #[error("the request `{0}` was made before, with another payload")]
    RequestConflict(String),
}

impl Coded for ChildError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } | Self::NoChild(_) => Code::UrmChildNotFound,
            Self::ClaimLost(_) => Code::UrmChildClaimLost,
            Self::Violation { code, .. } | Self::SpecInvalid { code, .. } => *code,
            Self::RequestConflict(_) => Code::UrmRequestConflict,
        }
    }
}
