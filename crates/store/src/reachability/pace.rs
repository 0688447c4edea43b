//! How fast a sweep may go: it must never be felt by what it works beside.

use crate::Clock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The shortest grace period that a server may be told: it must outlast every upload, and every caller that puts now and
/// refers later.
pub const GRACE_MIN: Duration = Duration::from_secs(60 * 60);

/// When objects are removed, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepConfig {
    /// How old an object must be to be judged, and how long it stays after it was found without a reference.
    pub grace: Duration,
    /// Keys that a walk reads per second; 0 for no bound.
    pub keys_per_second_max: u64,
    /// Objects that are removed per second; 0 for no bound.
    pub removals_per_second_max: u64,
    /// How long a run that nobody carries on stays with its process.
    pub ttl: Duration,
}

impl Default for SweepConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(24 * 60 * 60),
            keys_per_second_max: 50_000,
            removals_per_second_max: 500,
            ttl: Duration::from_secs(30 * 60),
        }
    }
}

impl SweepConfig {
    /// Refuses a grace period that nobody can rely on.
    pub fn check(&self) -> Result<(), super::SweepError> {
        if self.grace >= GRACE_MIN {
            return Ok(());
        }
        let (grace_ms, min_ms) = (self.grace.as_millis(), GRACE_MIN.as_millis());
        Err(super::SweepError::GraceTooShort { grace_ms, min_ms })
    }
}

/// Removals between two pauses.
const REMOVALS_AT_ONCE: u64 = 32;

/// Counts what is done, and pauses as long as the rates demand.
pub(super) struct Pace {
    clock: Arc<dyn Clock>,
    keys_per_second_max: u64,
    removals_per_second_max: u64,
    keys: AtomicU64,
    removals: AtomicU64,
}

impl Pace {
    pub(super) fn new(clock: Arc<dyn Clock>, config: &SweepConfig) -> Self {
        let SweepConfig { keys_per_second_max, removals_per_second_max, .. } = *config;
        let (keys, removals) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, keys_per_second_max, removals_per_second_max, keys, removals }
    }

    /// As fast as it goes.
    pub(super) fn unbounded(clock: Arc<dyn Clock>) -> Self {
        let config = SweepConfig { keys_per_second_max: 0, removals_per_second_max: 0, ..SweepConfig::default() };
        Self::new(clock, &config)
    }

    pub(super) async fn after_keys(&self, keys: usize) {
        self.keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.pause(keys as u64, self.keys_per_second_max).await;
    }

    pub(super) async fn after_removal(&self) {
        if (self.removals.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(REMOVALS_AT_ONCE) {
            self.pause(REMOVALS_AT_ONCE, self.removals_per_second_max).await;
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    async fn pause(&self, count: u64, per_second_max: u64) {
        let ns = count.saturating_mul(1_000_000_000).checked_div(per_second_max).unwrap_or(0);
        if ns > 0 {
            self.clock.sleep(Duration::from_nanos(ns)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;
    use mundi_model::{Code, Coded};

    #[test]
    fn a_rate_decides_how_long_the_pauses_are() {
        let clock = ManualClock::default();
        let config = SweepConfig { keys_per_second_max: 1_000, removals_per_second_max: 64, ..SweepConfig::default() };
        let pace = Pace::new(Arc::new(clock.clone()), &config);
        pollster::block_on(async {
            pace.after_keys(500).await;
            assert_eq!(clock.now_ns(), 500_000_000);
            for _ in 0..2 * REMOVALS_AT_ONCE {
                pace.after_removal().await;
            }
            assert_eq!(clock.now_ns(), 1_500_000_000);
            Pace::unbounded(Arc::new(clock.clone())).after_keys(usize::MAX).await;
            assert_eq!((clock.now_ns(), pace.keys()), (1_500_000_000, 500));
        });
    }

    #[test]
    fn a_grace_period_that_is_too_short_is_refused() {
        let grace = GRACE_MIN - Duration::from_millis(1);
        let refused = SweepConfig { grace, ..SweepConfig::default() }.check().unwrap_err();
        assert_eq!(refused.code(), Code::SweepRefused);
        assert!(SweepConfig { grace: GRACE_MIN, ..SweepConfig::default() }.check().is_ok());
    }
}
