//! The bound on attempts at effects over a whole process: of all universes, kinds and worlds together, at a time and per second.
//!
//! The attempts of one manifest and of one kind are bounded elsewhere; this protects the process, and the services behind it, from all of them
//! at once. An attempt is admitted before its effect is claimed, so that an effect that must wait is in the queue, where every process
//! finds it, and not under a claim.

use crate::metrics::{Metric, Metrics};
use parking_lot::Mutex;
use std::sync::Arc;

/// How many attempts a process makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptBounds {
    pub at_a_time_max: usize,
    /// That begin. As many as in one second may begin at once after a quiet time.
    pub per_second_max: u32,
}

impl Default for AttemptBounds {
    /// Far above what one process has been seen to do, and far below what its sockets and its memory bear.
    fn default() -> Self {
        Self { at_a_time_max: 8_192, per_second_max: 50_000 }
    }
}

/// Shared by the adapter workers of a process.
pub struct Attempts {
    bounds: AttemptBounds,
    metrics: Option<Arc<Metrics>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Admitted, and not over.
    admitted: usize,
    /// The attempts that may begin now, in parts of an attempt: each nanosecond adds as many as may begin in a second.
    credit: u64,
    credited_ns: Option<u64>,
}

/// One attempt costs as much credit as one per second earns in a second.
const ATTEMPT: u64 = 1_000_000_000;

impl Default for Attempts {
    fn default() -> Self {
        Self::new(AttemptBounds::default())
    }
}

impl Attempts {
    pub fn new(bounds: AttemptBounds) -> Self {
        Self { bounds, metrics: None, state: Mutex::default() }
    }

    /// Counts there how often something had to wait.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Admits up to so many attempts; says how many.
    pub(crate) fn admit(&self, wanted: usize, now_ns: u64) -> usize {
        let mut state = self.state.lock();
        state.earn(self.bounds.per_second_max, now_ns);
        let affordable = usize::try_from(state.credit / ATTEMPT).unwrap_or(usize::MAX);
        let room = self.bounds.at_a_time_max.saturating_sub(state.admitted);
        let admitted = wanted.min(affordable).min(room);
        state.admitted += admitted;
        state.credit -= ATTEMPT * admitted as u64;
        drop(state);
        if admitted == 0
            && wanted > 0
            && let Some(metrics) = &self.metrics
        {
            metrics.add(Metric::EffectsLimited, 1);
        }
        admitted
    }

    /// The bound that lets no attempt begin now, by the name of its setting, if there is one.
    pub fn spent(&self, now_ns: u64) -> Option<(&'static str, u64)> {
        let mut state = self.state.lock();
        state.earn(self.bounds.per_second_max, now_ns);
        if state.admitted >= self.bounds.at_a_time_max {
            return Some(("attempts_at_a_time_max", self.bounds.at_a_time_max as u64));
        }
        (state.credit < ATTEMPT).then(|| ("attempts_per_second_max", self.bounds.per_second_max.into()))
    }

    /// An attempt that was admitted is over, or was never made.
    pub(crate) fn end(&self, was_made: bool) {
        let mut state = self.state.lock();
        state.admitted = state.admitted.saturating_sub(1);
        if !was_made {
            state.credit = state.credit.saturating_add(ATTEMPT).min(most(self.bounds.per_second_max));
        }
    }
}

fn most(per_second_max: u32) -> u64 {
    u64::from(per_second_max.max(1)) * ATTEMPT
}

impl State {
    /// A clock that is set back earns nothing, and does not keep it from earning later.
    fn earn(&mut self, per_second_max: u32, now_ns: u64) {
        let earned = match self.credited_ns.replace(now_ns) {
            Some(before_ns) => now_ns.saturating_sub(before_ns).saturating_mul(u64::from(per_second_max.max(1))),
            None => u64::MAX,
        };
        self.credit = self.credit.saturating_add(earned).min(most(per_second_max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn no_more_run_at_a_time_than_may() {
        let attempts = Attempts::new(AttemptBounds { at_a_time_max: 3, per_second_max: 1_000 });
        assert_eq!((attempts.spent(0), attempts.admit(5, 0)), (None, 3));
        assert_eq!((attempts.spent(0), attempts.admit(1, SECOND)), (Some(("attempts_at_a_time_max", 3)), 0));
        attempts.end(true);
        assert_eq!((attempts.spent(SECOND), attempts.admit(5, SECOND)), (None, 1));
    }

    #[test]
    fn no_more_begin_in_a_second_than_may() {
        let attempts = Attempts::new(AttemptBounds { at_a_time_max: 100, per_second_max: 4 });
        assert_eq!(attempts.admit(9, 0), 4, "as many as in a second at once");
        assert_eq!(attempts.admit(9, SECOND / 8), 0);
        assert_eq!(attempts.spent(SECOND / 8), Some(("attempts_per_second_max", 4)));
        assert_eq!(attempts.admit(9, SECOND / 4), 1);
        assert_eq!(attempts.admit(9, 60 * SECOND), 4, "what was not used does not pile up");
        assert_eq!(attempts.admit(9, 59 * SECOND), 0, "a clock that is set back gives nothing");
        assert_eq!(attempts.admit(9, 60 * SECOND), 4, "and takes nothing");
    }

    #[test]
    fn what_was_not_made_is_not_counted() {
        let attempts = Attempts::new(AttemptBounds { at_a_time_max: 100, per_second_max: 2 });
        assert_eq!(attempts.admit(2, 0), 2);
        attempts.end(false);
        assert_eq!(attempts.admit(2, 0), 1);
    }

    #[test]
    fn whoever_has_to_wait_is_counted() {
        let metrics = Arc::new(Metrics::default());
        let bounds = AttemptBounds { at_a_time_max: 1, per_second_max: 9 };
        let attempts = Attempts::new(bounds).with_metrics(metrics.clone());
        assert_eq!((attempts.admit(1, 0), attempts.admit(1, 0), attempts.admit(0, 0)), (1, 0, 0));
        assert_eq!(metrics.get(Metric::EffectsLimited), 1);
    }
}
