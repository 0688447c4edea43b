//! The real environment: the machine's clock and randomness, and tokio's tasks.

use mundi_runtime::{Spawn, Task};
use mundi_store::{Clock, Entropy};
use parking_lot::Mutex;
use std::{
    pin::Pin,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{mpsc, watch};

/// The wall clock, on tokio's timers.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the edge: this is where the clock comes from")]
    fn now_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The machine's clock, set right by another one: all processes of a fleet go by their database's.
///
/// Safety rests on epochs and never on clocks. But a timer that fires by a clock that is a minute ahead fires a minute early.
pub struct FleetClock {
    machine: SystemClock,
    /// The error of this machine's clock, for tests.
    skew_ns: i64,
    ahead_ns: AtomicI64,
}

/// Smaller differences are within what asking over a network can tell.
const CORRECTION_NS_MIN: u64 = 5_000_000;

impl FleetClock {
    pub(crate) const fn new(skew_ns: i64) -> Self {
        Self { machine: SystemClock, skew_ns, ahead_ns: AtomicI64::new(0) }
    }

    /// This machine's own time, right or wrong.
    pub(crate) fn own_now_ns(&self) -> u64 {
        self.machine.now_ns().saturating_add_signed(self.skew_ns)
    }

    /// The other clock is so far ahead of this machine's, give or take.
    pub(crate) fn set_right(&self, ahead_ns: i64, uncertain_ns: u64) {
        let change_ns = ahead_ns.saturating_sub(self.ahead_ns.load(Ordering::Relaxed)).unsigned_abs();
        if change_ns > CORRECTION_NS_MIN.saturating_add(uncertain_ns) {
            if change_ns > 1_000_000_000 {
                tracing::warn!(
                    ahead_ms = ahead_ns / 1_000_000,
                    "the fleet's clock differs from this machine's; the fleet's is used"
                );
            }
            self.ahead_ns.store(ahead_ns, Ordering::Relaxed);
        }
    }
}

impl Clock for FleetClock {
    fn now_ns(&self) -> u64 {
        self.own_now_ns().saturating_add_signed(self.ahead_ns.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.machine.sleep(duration)
    }
}

/// The operating system's random numbers, some of them fetched ahead: each turn wants a few.
#[derive(Default)]
pub struct SystemEntropy {
    ahead: Mutex<Vec<u8>>,
}

const ENTROPY_BYTES_AHEAD: usize = 1_024;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut ahead = self.ahead.lock();
        if ahead.len() < bytes.len() {
            let mut fresh = vec![0; ENTROPY_BYTES_AHEAD.max(bytes.len())];
            #[expect(
                clippy::expect_used,
                reason = "a machine without randomness can name nothing; there is no going on"
            )]
            getrandom::fill(&mut fresh).expect("the operating system gives random numbers");
            *ahead = fresh;
        }
        let left = ahead.len() - bytes.len();
        bytes.copy_from_slice(&ahead[left..]);
        ahead[left..].fill(0); // nobody reads them a second time
        ahead.truncate(left);
    }
}

/// The tasks of a node. They end together, at an await, when the node stops.
#[derive(Clone)]
pub(crate) struct Tasks {
    stopped: watch::Receiver<bool>,
    /// Each task holds a strong one; when all are gone, so are the tasks and what they held.
    alive: mpsc::WeakSender<()>,
}

/// Ends tasks, and waits until they are gone.
pub(crate) struct StopTasks {
    stop: watch::Sender<bool>,
    alive: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
}

pub(crate) fn tasks() -> (Tasks, StopTasks) {
    let (stop, stopped) = watch::channel(false);
    let (alive, ended) = mpsc::channel(1);
    (Tasks { stopped, alive: alive.downgrade() }, StopTasks { stop, alive, ended })
}

impl Spawn for Tasks {
    fn spawn(&self, task: Task) {
        let mut stopped = self.stopped.clone();
        let Some(alive) = self.alive.upgrade() else { return }; // stopped: nothing begins any more
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            drop(alive);
        });
    }
}

impl StopTasks {
    pub(crate) async fn stop(self) {
        let Self { stop, alive, mut ended } = self;
        stop.send_replace(true);
        drop(alive);
        let _all_gone = ended.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_is_set_right_and_stays_where_it_is_otherwise() {
        let clock = FleetClock::new(-60_000_000_000);
        // To the nearest second: some time passes between the two looks.
        let away = |clock: &FleetClock| (SystemClock.now_ns().abs_diff(clock.now_ns()) + 500_000_000) / 1_000_000_000;
        assert_eq!(away(&clock), 60);
        clock.set_right(60_000_000_000, 1_000_000);
        assert_eq!(away(&clock), 0);
        let before = clock.ahead_ns.load(Ordering::Relaxed);
        clock.set_right(60_003_000_000, 1_000_000);
        assert_eq!(clock.ahead_ns.load(Ordering::Relaxed), before, "within what can be told");
    }
}
