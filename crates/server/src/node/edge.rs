//! Where the outside comes in: the machine's clock and randomness, and tokio's tasks.

use mundi_runtime::{Spawn, Task};
use mundi_store::{Clock, Entropy};
use std::{
    pin::Pin,
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

/// The operating system's random numbers.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        #[expect(clippy::expect_used, reason = "a machine without randomness can name nothing; there is no going on")]
        getrandom::fill(bytes).expect("the operating system gives random numbers");
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
