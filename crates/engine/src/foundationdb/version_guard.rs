//! Versions that go back.
//!
//! Cursors hold versions: a queue is read from above the last stamp that was taken. A cluster that is younger than the data in it (another
//! cluster, into which a backup was restored or a universe is imported) gives stamps below those cursors, and what it stamps would never be
//! read. So a key of the deployment holds the highest version that any process has seen. Opening refuses while the cluster's version is below
//! it. An operator advances the cluster's version; this engine never does, because that is a recovery of the whole cluster.
//!
//! Processes raise the key when they open and every [`RAISE_EVERY`], so no commit writes it. What was committed since the last raise is above the
//! key, at most by [`LAG_VERSIONS`]. The version that an operator is told lies above all of that.

use crate::EngineError;
use std::time::Duration;

/// How often a process raises the key.
pub(super) const RAISE_EVERY: Duration = Duration::from_secs(5);

/// A cluster gives a million versions in a second, and skips a hundred million when it recovers.
const LAG_VERSIONS: u64 = 1_000_000_000;

/// Whether a cluster at this version may be used, if `highest` was seen in the data, and what is taken over has stamps up to `imported`.
pub(super) fn check(version: u64, highest: Option<u64>, imported: u64) -> Result<(), EngineError> {
    let seen = match highest {
        Some(highest) if highest > imported => highest,
        _ => imported,
    };
    if version < seen {
        return Err(EngineError::VersionBehind { found: version, needed: seen.saturating_add(LAG_VERSIONS) });
    }
    Ok(())
}

/// The stored form is the operand of the cluster's own operation MAX: eight bytes, little-endian.
pub(super) const fn stored(version: u64) -> [u8; 8] {
    version.to_le_bytes()
}

/// The version that is stored; `None` if the value is none.
pub(super) fn read(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{Code, Coded};

    #[test]
    fn a_new_deployment_opens_on_any_cluster() {
        assert!(check(0, None, 0).is_ok());
        assert!(check(1_000, None, 0).is_ok());
    }

    #[test]
    fn a_cluster_that_has_gone_on_is_used() {
        assert!(check(5_000_000, Some(5_000_000), 0).is_ok());
        assert!(check(5_000_001, Some(5_000_000), 4_000_000).is_ok());
    }

    #[test]
    fn a_younger_cluster_is_refused_and_the_operator_is_told_a_version_above_every_stamp() {
        let seen = 7_000_000_000_000;
        let refused = check(3_600_000_000, Some(seen), 0).unwrap_err();
        assert_eq!(refused.code(), Code::DatabaseVersionBehind);
        let EngineError::VersionBehind { found, needed } = refused else { panic!("{refused}") };
        assert_eq!(found, 3_600_000_000);
        let stamps_since_the_last_raise = RAISE_EVERY.as_secs() * 1_000_000;
        assert!(needed > seen + stamps_since_the_last_raise);
        assert!(check(needed, Some(seen), 0).is_ok(), "after `advanceversion` to what was told");
    }

    #[test]
    fn what_is_imported_from_another_engine_counts_as_seen() {
        assert!(check(100, None, 101).is_err());
        assert!(check(100, Some(50), 101).is_err());
        assert!(check(101, Some(50), 101).is_ok());
    }

    #[test]
    fn versions_come_back_and_other_values_are_no_version() {
        assert_eq!(read(&stored(0x0102_0304_0506_0708)), Some(0x0102_0304_0506_0708));
        assert_eq!(read(b"short"), None);
    }
}
