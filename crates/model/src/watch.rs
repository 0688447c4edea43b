//! The policy by which a watcher judges the holders of a pool's leases, and the evidence that it writes down.
//!
//! A policy belongs to a pool and is no part of the lease kernel: the kernel knows neither liveness nor delays.

use crate::limits;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// When the leases of a pool are revoked, and how long after that they are reclaimed. Without any rule a watcher revokes nothing, and
/// reclaims only what others revoked with a delay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchPolicy {
    /// Revokes a lease whose holder is a world that was deleted or archived.
    #[n(0)]
    pub holder_ended: bool,
    /// Revokes a lease whose holder is no world and sent no heartbeat for so long.
    #[n(1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_after_ms: Option<u64>,
    /// Revokes a lease whose probe fails so many times in a row.
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<WatchProbe>,
    /// So long after a watcher revoked a lease it reclaims it; absent, an operator does.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_after_ms: Option<u64>,
}

/// A URL that answers with a status from 200 to 299 while all is well.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchProbe {
    /// `{lease}`, `{epoch}`, `{holder}` and `{resource}` stand for those of the lease; with `{resource}` each member is probed.
    #[n(0)]
    pub url: String,
    #[n(1)]
    #[serde(default = "failures_max_default")]
    pub failures_max: u32,
    #[n(2)]
    #[serde(default = "timeout_ms_default")]
    pub timeout_ms: u64,
}

fn failures_max_default() -> u32 {
    limits::WATCH_PROBE_FAILURES_DEFAULT
}

fn timeout_ms_default() -> u64 {
    limits::WATCH_PROBE_TIMEOUT_MS_DEFAULT
}

/// The placeholders of a probe's URL.
pub const PROBE_PARTS: [&str; 4] = ["{lease}", "{epoch}", "{holder}", "{resource}"];

/// A policy that no watcher can go by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchPolicyInvalid {
    #[error("`{name}` is {value}; it must be at least {min} and at most {max}")]
    OutOfRange { name: &'static str, value: u64, min: u64, max: u64 },
    #[error("`probe.url` {0}")]
    Url(String),
}

impl WatchPolicy {
    pub fn check(&self) -> Result<(), WatchPolicyInvalid> {
        let mut bounds = Vec::new();
        bounds.extend(self.silent_after_ms.map(|ms| ("silent_after_ms", ms, 1, limits::WATCH_MS_MAX)));
        bounds.extend(self.reclaim_after_ms.map(|ms| ("reclaim_after_ms", ms, 0, limits::WATCH_MS_MAX)));
        if let Some(probe) = &self.probe {
            let failures = u64::from(probe.failures_max);
            bounds.push(("probe.failures_max", failures, 1, limits::WATCH_PROBE_FAILURES_MAX));
            bounds.push(("probe.timeout_ms", probe.timeout_ms, 1, limits::WATCH_PROBE_TIMEOUT_MS_MAX));
            check_url(&probe.url)?;
        }
        match bounds.into_iter().find(|(_, value, min, max)| value < min || value > max) {
            Some((name, value, min, max)) => Err(WatchPolicyInvalid::OutOfRange { name, value, min, max }),
            None => Ok(()),
        }
    }
}

fn check_url(url: &str) -> Result<(), WatchPolicyInvalid> {
    let refuse = |why: String| Err(WatchPolicyInvalid::Url(why));
    if url.len() > limits::WATCH_URL_BYTES_MAX {
        return refuse(format!("has more than {} bytes", limits::WATCH_URL_BYTES_MAX));
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return refuse("does not begin with http:// or https://".to_owned());
    }
    let rest = PROBE_PARTS.iter().fold(url.to_owned(), |rest, part| rest.replace(part, ""));
    match rest.contains(['{', '}']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => refuse(format!("may leave open only {}, and has no spaces", PROBE_PARTS.join(", "))),
        false => Ok(()),
    }
}

/// Why a watcher takes a holder for gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The holder is a world that was deleted or archived.
    #[n(0)]
    HolderEnded,
    /// No heartbeat came.
    #[n(1)]
    Silent,
    /// The probe failed again and again.
    #[n(2)]
    ProbeFailed,
}

impl EvidenceKind {
    pub const ALL: [Self; 3] = [Self::HolderEnded, Self::Silent, Self::ProbeFailed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HolderEnded => "holder_ended",
            Self::Silent => "silent",
            Self::ProbeFailed => "probe_failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(url: &str) -> WatchPolicy {
        let probe = WatchProbe { url: url.to_owned(), failures_max: 3, timeout_ms: 1_000 };
        WatchPolicy { probe: Some(probe), ..WatchPolicy::default() }
    }

    #[test]
    fn a_policy_out_of_bounds_is_refused() {
        assert_eq!(WatchPolicy::default().check(), Ok(()));
        assert_eq!(probe("http://h/{resource}?l={lease}&e={epoch}&h={holder}").check(), Ok(()));
        for url in ["ftp://h", "h", "", "http://h/{world}", "http://h/{", "http://h /"] {
            assert!(matches!(probe(url).check(), Err(WatchPolicyInvalid::Url(_))), "{url}");
        }
        assert!(probe(&format!("http://{}", "h".repeat(limits::WATCH_URL_BYTES_MAX))).check().is_err());
        for policy in [
            WatchPolicy { silent_after_ms: Some(0), ..WatchPolicy::default() },
            WatchPolicy { silent_after_ms: Some(u64::MAX), ..WatchPolicy::default() },
            WatchPolicy { reclaim_after_ms: Some(limits::WATCH_MS_MAX + 1), ..WatchPolicy::default() },
        ] {
            assert!(matches!(policy.check(), Err(WatchPolicyInvalid::OutOfRange { .. })), "{policy:?}");
        }
        let zero = WatchProbe { url: "http://h".to_owned(), failures_max: 0, timeout_ms: 1 };
        assert!(WatchPolicy { probe: Some(zero), ..WatchPolicy::default() }.check().is_err());
    }

    #[test]
    fn kinds_are_written_as_they_are_named() {
        for kind in EvidenceKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
