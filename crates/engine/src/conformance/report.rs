//! The report: which properties hold.

use crate::{CommitError, EngineError};
use std::{fmt, panic::Location};

/// The result of trying a property: nothing if it holds.
pub type Proof = Result<(), Finding>;

/// Why a property was not shown to hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The engine breaks its contract, and this is how.
    #[error("{0}")]
    Violation(String),
    /// The subject cannot be examined for this, and this is why.
    #[error("not applicable: {0}")]
    NotApplicable(&'static str),
}

/// An error where the contract promises success.
impl From<EngineError> for Finding {
    #[track_caller]
    fn from(error: EngineError) -> Self {
        Self::Violation(format!("a call that must succeed failed at {}: {error}", Location::caller()))
    }
}

/// A refusal where the contract promises a commit.
impl From<CommitError> for Finding {
    #[track_caller]
    fn from(error: CommitError) -> Self {
        Self::Violation(format!("a commit that must succeed failed at {}: {error}", Location::caller()))
    }
}

/// Every property that was tried, and its proof.
#[derive(Debug, Default)]
pub struct Report {
    pub proofs: Vec<(&'static str, Proof)>,
}

impl Report {
    pub(super) fn add(&mut self, property: &'static str, proof: Proof) {
        self.proofs.push((property, proof));
    }

    /// Whether no property is violated.
    pub fn is_conformant(&self) -> bool {
        self.violated().is_empty()
    }

    /// The names of the properties that do not hold.
    pub fn violated(&self) -> Vec<&'static str> {
        let violated = self.proofs.iter().filter(|(_, proof)| matches!(proof, Err(Finding::Violation(_))));
        violated.map(|(property, _)| *property).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (property, proof) in &self.proofs {
            match proof {
                Ok(()) => writeln!(f, "holds     {property}")?,
                Err(Finding::NotApplicable(why)) => writeln!(f, "skipped   {property}: {why}")?,
                Err(Finding::Violation(story)) => writeln!(f, "VIOLATED  {property}: {story}")?,
            }
        }
        Ok(())
    }
}
