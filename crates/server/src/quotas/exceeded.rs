//! The error for a request beyond a quota.

use super::Quota;
use mundi_model::{Code, Coded};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

/// The owner of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Universe,
    Token,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Universe => "universe",
            Self::Token => "token",
        }
    }
}

/// A quota allows no more now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{}` of the {} is {limit}, and {current} are in use", quota.as_str(), scope.as_str())]
pub(crate) struct QuotaExceeded {
    pub(crate) scope: Scope,
    pub(crate) quota: Quota,
    pub(crate) limit: u64,
    pub(crate) current: u64,
    pub(crate) retry_after: Duration,
}

impl Coded for QuotaExceeded {
    fn code(&self) -> Code {
        Code::QuotaExceeded
    }
}

impl QuotaExceeded {
    /// In whole seconds, and not before.
    pub(crate) fn retry_after_s(&self) -> u64 {
        let whole = self.retry_after.as_secs();
        if self.retry_after.subsec_nanos() > 0 { whole + 1 } else { whole.max(1) }
    }
}

/// How often each quota refused something.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<(Scope, Quota), u64>>);

impl Refusals {
    pub(crate) fn count(&self, exceeded: &QuotaExceeded) {
        *self.0.lock().entry((exceeded.scope, exceeded.quota)).or_default() += 1;
    }

    pub(crate) fn all(&self) -> BTreeMap<(Scope, Quota), u64> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_never_told_to_come_too_early() {
        let exceeded = |ms| QuotaExceeded {
            scope: Scope::Token,
            quota: Quota::Calls,
            limit: 1,
            current: 1,
            retry_after: Duration::from_millis(ms),
        };
        assert_eq!([0, 1, 999, 1_000, 1_001].map(|ms| exceeded(ms).retry_after_s()), [1, 1, 1, 1, 2]);
        assert_eq!(exceeded(0).to_string(), "`calls_max` of the token is 1, and 1 are in use");
    }
}
