//! Checks of values, and the error that names the key.

use mundi_model::{Code, Coded};
use std::{fmt::Display, ops::RangeInclusive};

/// TOML has no larger numbers.
pub(super) const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();

/// Why a configuration cannot be used: the file, variable, flag or key, and the cause.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{from}: {cause}")]
pub struct ConfigError {
    from: String,
    cause: String,
}

impl ConfigError {
    #[expect(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
    pub fn new(from: impl Into<String>, cause: impl ToString) -> Self {
        Self { from: from.into(), cause: cause.to_string() }
    }
}

impl Coded for ConfigError {
    fn code(&self) -> Code {
        Code::ConfigInvalid
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a value and a range are written where it is called")]
pub(super) fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("{value} is not allowed: expected {} to {}", allowed.start(), allowed.end())))
}
