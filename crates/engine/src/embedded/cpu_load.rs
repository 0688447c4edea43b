//! Whether the process has the processors busy.
//!
//! As long as it has not, a group is best synced at once. When it has, what waits for a sync would otherwise wait for a
//! processor, and every group takes one from those who make the next: fewer and larger groups are faster for all.

use rustix::time::{ClockId, clock_gettime};
use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

/// How often it is looked at. Long against a group, short against what a load lasts.
const LOOK: Duration = Duration::from_millis(20);
/// Of all processors, in percent: the clients of a busy server may need some of the same ones.
const BUSY_PERCENT: u128 = 60;

pub(super) struct CpuLoad {
    processors: u128,
    last: Option<(Instant, Duration)>,
    busy: bool,
}

impl Default for CpuLoad {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self { processors: processors as u128, last: None, busy: false }
    }
}

impl CpuLoad {
    #[cfg(test)]
    #[expect(clippy::disallowed_methods, reason = "it is never asked again")]
    pub(super) fn always_busy() -> Self {
        let later = Instant::now() + Duration::from_secs(3_600);
        Self { last: Some((later, Duration::ZERO)), busy: true, ..Self::default() }
    }

    #[expect(clippy::disallowed_methods, reason = "an engine is at the edge; it decides how large a group is")]
    pub(super) fn is_busy(&mut self) -> bool {
        let now = Instant::now();
        if self.last.is_none_or(|(since, _)| now.duration_since(since) >= LOOK) {
            let used = clock_gettime(ClockId::ProcessCPUTime);
            let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
            self.learn(now, Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0)));
        }
        self.busy
    }

    /// The process has used so much processor time until now.
    fn learn(&mut self, now: Instant, used: Duration) {
        if let Some((since, used_then)) = self.last.replace((now, used)) {
            let available = now.duration_since(since).as_nanos() * self.processors;
            self.busy = used.saturating_sub(used_then).as_nanos() * 100 >= available * BUSY_PERCENT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only differences count")]
    fn a_process_is_busy_when_it_used_most_of_what_all_processors_had() {
        let (begun, ms) = (Instant::now(), Duration::from_millis);
        let mut load = CpuLoad { processors: 4, last: None, busy: false };
        load.learn(begun, ms(1_000));
        assert!(!load.busy, "nothing is known yet");
        load.learn(begun + ms(20), ms(1_048));
        assert!(load.busy);
        load.learn(begun + ms(40), ms(1_095));
        assert!(!load.busy, "47 of 80 ms");
    }
}
