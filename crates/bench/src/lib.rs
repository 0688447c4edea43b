//! The benches: the layers of Mundi beside the raw limit of the disk, in one run.
//!
//! A machine that is shared with others gives no absolute figure worth keeping. What it gives are ratios
//! between things measured in turns, and processor time per operation.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod clients;
mod content;
mod engine;
mod fleet;
mod latency;
mod machine;
mod raw;
mod report;
mod runtime;
mod serving;
mod store;

use clap::{Subcommand, ValueEnum};
use std::{
    error::Error,
    path::{Path, PathBuf},
};

/// One measurement, and how to take it.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// The embedded engine: puts, queues, scans, opening; beside a raw synced log.
    Engine(engine::Settings),
    /// The persistence plane: enqueue, drain, replay, restore; beside a raw synced log.
    Store(store::Settings),
    /// The runtime plane: calls through full turns, effects, timers, forks, memory, hand-over; beside a raw synced log.
    Runtime(runtime::Settings),
    /// Calls over HTTP: an event to one of many counters, journaled, stepped and answered.
    Call(serving::CallSettings),
    /// Sends over HTTP: an event to one of many counters, acknowledged when it is durable.
    Send(serving::SendSettings),
    /// The runtime on PostgreSQL: calls, sends and effects, in one process and in several, beside pgbench.
    Fleet(fleet::Settings),
}

impl BenchArgs {
    /// Measures and prints. `mundi` is the program whose server is measured.
    pub fn run(&self, mundi: &Path) -> Result<(), Box<dyn Error>> {
        match &self.what {
            What::Engine(settings) => engine::run(settings),
            What::Store(settings) => store::run(settings),
            What::Runtime(settings) => runtime::run(settings),
            What::Call(settings) => serving::call(settings, mundi),
            What::Send(settings) => serving::send(settings, mundi),
            What::Fleet(settings) => fleet::run(settings),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Where to measure, and how to tell.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    /// Folder on the disk to measure; a temporary one below it is used and removed.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Seconds per measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Runs per measurement; the median is reported, with the lowest and the highest.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How to print the figures.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}
