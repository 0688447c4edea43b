//! The command: `mundi sim`, and `mundi-sim`, which builds without the rest.

use crate::{
    faults::Faults,
    report::{Summary, failure_text, outcome_json},
    run::{Outcome, run_exactly, run_seed},
};
use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Runs the real store and runtime through simulated faults, and checks that every promise was kept.
#[derive(Debug, Clone, Args)]
pub struct SimArgs {
    /// Run this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "minutes"])]
    pub seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    pub seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    pub from: u64,
    /// Stop after so many minutes, whatever is left.
    #[arg(long)]
    pub minutes: Option<u64>,
    /// `all`, `none`, or names with commas between them. A seed chooses about half of them.
    #[arg(long, default_value = "all")]
    pub faults: Faults,
    /// Use exactly these faults.
    #[arg(long)]
    pub exact: bool,
    /// How many seeds run at the same time.
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Print everything that happens. Only with one seed.
    #[arg(long, requires = "seed")]
    pub trace: bool,
}

/// How it is told. Not an argument of its own here: a program that has more commands has one for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Where progress is told: on a terminal, and nowhere else, because it moves.
pub fn watched() -> Box<dyn Write + Send> {
    if io::stderr().is_terminal() { Box::new(io::stderr()) } else { Box::new(io::sink()) }
}

/// Runs what is asked for; says whether every promise was kept.
pub fn run(args: &SimArgs, format: Format, out: &mut dyn Write, progress: &mut (dyn Write + Send)) -> io::Result<bool> {
    match args.seed {
        Some(seed) => run_one(args, format, seed, out, progress),
        None => run_many(args, format, out, progress),
    }
}

fn run_one(
    args: &SimArgs,
    format: Format,
    seed: u64,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> io::Result<bool> {
    // Nobody may be looking.
    let _unseen = write!(progress, "seed {seed} ...").and_then(|()| progress.flush());
    let outcome = play(args, seed, args.trace);
    let _unseen = write!(progress, "\r\x1b[2K");
    match format {
        Format::Json => writeln!(out, "{}", outcome_json(&outcome))?,
        Format::Text => {
            outcome.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            writeln!(out, "seed {seed}, trace {:016x}, faults: {}", outcome.trace_hash, outcome.faults)?;
            match &outcome.failure {
                Some(failure) if args.trace => writeln!(out, "failed: {failure}")?,
                Some(failure) => write!(out, "{}", failure_text(seed, &outcome.faults, failure, progress))?,
                None => writeln!(out, "every promise was kept")?,
            }
        }
    }
    Ok(outcome.failure.is_none())
}

fn play(args: &SimArgs, seed: u64, trace: bool) -> Outcome {
    if args.exact { run_exactly(seed, args.faults.clone(), trace) } else { run_seed(seed, &args.faults, trace) }
}

fn run_many(
    args: &SimArgs,
    format: Format,
    out: &mut dyn Write,
    progress: &mut (dyn Write + Send),
) -> io::Result<bool> {
    let deadline = args.minutes.map(|minutes| now() + Duration::from_secs(60 * minutes));
    let (next, summary) = (AtomicU64::new(args.from), Mutex::new(Summary::default()));
    let shown = Mutex::new((now(), progress));
    thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= args.from + args.seeds || deadline.is_some_and(|deadline| now() >= deadline) {
                        return;
                    }
                    let outcome = play(args, seed, false);
                    let mut summary = summary.lock();
                    summary.add(&outcome);
                    let mut shown = shown.lock();
                    if shown.0.elapsed() >= Duration::from_secs(1) {
                        shown.0 = now();
                        // Nobody may be looking.
                        let _unseen = write!(shown.1, "\r{}", summary.progress());
                    }
                }
            });
        }
    });
    let progress = shown.into_inner().1;
    let _unseen = writeln!(progress);
    let summary = summary.into_inner();
    match format {
        Format::Json => writeln!(out, "{}", summary.json())?,
        Format::Text => {
            for (seed, faults, failure) in &summary.failures {
                writeln!(out, "{}", failure_text(*seed, faults, failure, progress))?;
            }
            write!(out, "{}", summary.text())?;
        }
    }
    Ok(summary.failed == 0)
}

#[expect(clippy::disallowed_methods, reason = "how long a person waits is not simulated")]
fn now() -> Instant {
    Instant::now()
}
