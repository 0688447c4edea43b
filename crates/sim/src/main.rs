//! `mundi-sim`: the simulator as a command.

use clap::Parser;
use mundi_sim::cli::{Format, SimArgs, run, watched};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Runs the real store and runtime through simulated faults, and checks that every promise was kept.
#[derive(Parser)]
#[command(name = "mundi-sim", version)]
struct Command {
    #[command(flatten)]
    sim: SimArgs,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn main() -> ExitCode {
    let Command { sim, format } = Command::parse();
    match run(&sim, format, &mut io::stdout(), &mut *watched()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is gone too, nobody is left to tell.
            let _gone = writeln!(io::stderr(), "mundi-sim: {error}");
            ExitCode::from(2)
        }
    }
}
