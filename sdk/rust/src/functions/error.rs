//! Why a durable function, or something that it waits for, came to nothing.

use crate::kinds::EffectError;
use std::fmt;

/// The error of a durable function. Any error becomes one, so `?` works on all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionError {
    code: String,
    message: String,
    effect: Option<Box<(String, EffectError)>>,
}

impl FunctionError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), effect: None }
    }

    pub(crate) fn cancelled(reason: String) -> Self {
        Self::new("FUNCTION_CANCELLED", reason)
    }

    pub(crate) fn of_effect(effect: &str, error: EffectError) -> Self {
        Self {
            code: error.code.clone(),
            message: error.reason.clone(),
            effect: Some(Box::new((effect.to_owned(), error))),
        }
    }

    /// `FUNCTION_…`, the code of an effect that was not carried out, or `FUNCTION_FAILED` for an error of the code's own.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The instance, or the scope that was waited in, was cancelled. Clean up in `ctx.shield(…)`, and give it back.
    pub fn is_cancelled(&self) -> bool {
        self.code == "FUNCTION_CANCELLED"
    }

    /// The effect that was not carried out, if it is about one.
    pub fn effect(&self) -> Option<(&str, &EffectError)> {
        self.effect.as_deref().map(|(effect, error)| (&**effect, error))
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for FunctionError {
    fn from(error: E) -> Self {
        Self::new("FUNCTION_FAILED", error.to_string())
    }
}

/// The error for a world that has as many open effects or timers as it may have.
pub(crate) fn full(failure: crate::Failure) -> FunctionError {
    FunctionError::new("FUNCTION_WORLD_FULL", failure.reason)
}
