//! `mundi-bench`: the benches without the rest of the program; `mundi bench` has the same.

use clap::Parser;
use mundi_bench::BenchArgs;
use std::process::{Command, ExitCode};

/// The allocator of the product, so that the bench measures what users run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "mundi-bench", about = "Measures Mundi's layers beside the raw limit of the disk, in one run")]
struct Arguments {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    let Arguments { bench } = Arguments::parse();
    let outcome = match std::env::current_exe() {
        Ok(this) => bench.run(&|| Command::new(&this)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mundi-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
