//! `mundi-bench`: the layers of Mundi beside the raw limit of the disk, in one run.
//!
//! A machine that is shared with others gives no absolute figure worth keeping. What it gives are ratios
//! between things measured in turns, and processor time per operation.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod clients;
mod content;
mod engine;
mod latency;
mod machine;
mod raw;
mod report;
mod runtime;
mod store;

use clap::{Parser, Subcommand, ValueEnum};
use std::{path::PathBuf, process::ExitCode};

/// The allocator of the product, so that the bench measures what users run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "mundi-bench", about = "Measures Mundi's layers beside the raw limit of the disk, in one run")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The embedded engine: puts, queues, scans, opening; beside a raw synced log.
    Engine(engine::Settings),
    /// The persistence plane: enqueue, drain, replay, restore; beside a raw synced log.
    Store(store::Settings),
    /// The runtime plane: calls through full turns, effects, timers, forks, memory, hand-over; beside a raw synced log.
    Runtime(runtime::Settings),
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.what {
        What::Engine(settings) => engine::run(&settings),
        What::Store(settings) => store::run(&settings),
        What::Runtime(settings) => runtime::run(&settings),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mundi-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
