//! Content store and segments, on the embedded engine and a folder.
//!
//! `cargo run --release -p mundi-store --example cas_bench [folder]`

use mundi_engine::Embedded;
use mundi_store::{bench, objects};
use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

/// The wall clock, for measuring.
struct WallClock(std::time::Instant);

impl mundi_store::Clock for WallClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        #[expect(clippy::disallowed_methods, reason = "a benchmark waits for real")]
        std::thread::sleep(duration);
        Box::pin(std::future::ready(()))
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(1).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let engine = Embedded::open(folder.join("engine"))?;
    let objects = objects::open(&folder.join("objects").display().to_string())?;
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    let clock = Arc::new(WallClock(std::time::Instant::now()));
    let figures = pollster::block_on(bench::content_and_segments(&engine, &objects, clock))?;
    for figure in figures {
        println!("{figure}");
    }
    Ok(())
}
