//! What is said while something takes long: after two seconds, on stderr, and as one line that moves on a terminal.

use super::output::Out;
use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const QUIET: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(200);

/// Counts what was done so far; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// What remains, where that is what is counted.
    pub(crate) fn set(&self, amount: u64) {
        self.0.store(amount, Ordering::Relaxed);
    }

    /// Waits for something, and tells meanwhile that it is under way. `show` makes words of the count.
    pub(crate) async fn during<T>(
        &self,
        out: Out,
        what: &str,
        show: impl Fn(u64) -> String,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(QUIET, &mut work).await {
            return done;
        }
        let moving = std::io::stderr().is_terminal() && !out.is_json();
        if !moving {
            eprintln!("{what} ...");
            return work.await;
        }
        let mut ticks = 10u64;
        loop {
            let wheel = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
            let at = wheel[usize::try_from(ticks % 10).unwrap_or(0)];
            let shown = show(self.0.load(Ordering::Relaxed));
            eprint!("\r\x1b[2K{at} {what} {shown} {}", out.dim(&format!("{} s", ticks / 5)));
            drop(std::io::stderr().flush());
            if let Ok(done) = tokio::time::timeout(TICK, &mut work).await {
                eprint!("\r\x1b[2K");
                return done;
            }
            ticks += 1;
        }
    }
}

/// A size as people read it.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        1_048_576..1_073_741_824 => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
        _ => format!("{}.{} GiB", bytes / 1_073_741_824, bytes % 1_073_741_824 * 10 / 1_073_741_824),
    }
}
