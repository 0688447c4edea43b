//! Progress of a command that takes longer than two seconds, on stderr: a moving line on a terminal, one plain line in a log, and
//! nothing with JSON output.

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
const BAR_CELLS: u64 = 24;

/// Counts what was done so far; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    /// How much there is to do, if that is known.
    total: Option<u64>,
}

impl Progress {
    /// Towards an end that is known.
    pub(crate) fn of(total: u64) -> Self {
        Self { total: Some(total), ..Self::default() }
    }

    pub(crate) fn add(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    /// The amount that is done, or that remains, where that is counted.
    pub(crate) fn set(&self, amount: u64) {
        self.done.store(amount, Ordering::Relaxed);
    }

    /// Waits for something, and tells meanwhile that it is in progress. `show` makes words of a count.
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
        if out.is_json() {
            return work.await;
        }
        if !std::io::stderr().is_terminal() {
            eprintln!("{what} ...");
            return work.await;
        }
        let mut ticks = 10u64;
        loop {
            let wheel = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
            let at = wheel[usize::try_from(ticks % 10).unwrap_or(0)];
            let waited = out.dim(&format!("{} s", ticks / 5));
            eprint!("\r\x1b[2K{at} {what} {} {waited}", self.shown(&show));
            drop(std::io::stderr().flush());
            if let Ok(done) = tokio::time::timeout(TICK, &mut work).await {
                eprint!("\r\x1b[2K");
                return done;
            }
            ticks += 1;
        }
    }

    /// How far it is: with a bar, where the end is known.
    fn shown(&self, show: impl Fn(u64) -> String) -> String {
        let done = self.done.load(Ordering::Relaxed);
        match self.total.filter(|total| *total > 0) {
            None => show(done),
            Some(total) => format!("{} {} of {}", bar(done, total), show(done), show(total)),
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    let full = u64::try_from(u128::from(done.min(total)) * u128::from(BAR_CELLS) / u128::from(total)).unwrap_or(0);
    (0..BAR_CELLS).map(|cell| if cell < full { '━' } else { '┄' }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_what_was_done_of_the_whole() {
        let full = |done, total| bar(done, total).chars().filter(|cell| *cell == '━').count();
        assert_eq!((full(0, 7), full(7, 14), full(14, 14)), (0, 12, 24));
        assert_eq!(full(u64::MAX, u64::MAX), 24, "no size is too large");
        assert_eq!(full(9, 3), 24, "a file that grew meanwhile");
    }

    #[test]
    fn the_end_is_named_only_where_it_is_known() {
        let (known, unknown) = (Progress::of(2_048), Progress::default());
        known.add(1_024);
        unknown.add(1_024);
        assert!(known.shown(bytes).ends_with(" 1 KiB of 2 KiB"), "{}", known.shown(bytes));
        assert_eq!(unknown.shown(bytes), "1 KiB");
    }
}
