//! The seeds that every change must survive. Longer: `cargo xtask nightly`, or `cargo run --release -p mundi-sim -- --seeds 20000 --jobs 4`.

use mundi_sim::{Faults, Summary, run_seed};
use std::{ops::Range, process::Command};

/// Enough for about half a minute without optimization.
const SEEDS: u64 = 60;

/// Beside them: each commit runs others.
const COMMIT_SEEDS: u64 = 20;

fn all_promises_are_kept(seeds: impl Iterator<Item = u64>) {
    let mut summary = Summary::default();
    for seed in seeds {
        let outcome = run_seed(seed, &Faults::all(), false);
        summary.add(&outcome);
        assert_eq!(outcome.failure, None, "replay: cargo run -p mundi-sim -- --seed {seed}");
    }
    eprintln!("{}", summary.progress());
}

#[test]
fn every_promise_is_kept_under_every_kind_of_fault() {
    let seeds = std::env::var("MUNDI_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    all_promises_are_kept(0..seeds);
}

/// Seeds that failed once. In the first five a turn that resumes its world starts effects as well, which the checkers took for the creation of a
/// world; in the last one receipts took the room in a full inbox that is reserved for commands, and nobody could resume the world.
#[test]
fn every_promise_is_kept_under_seeds_that_failed_before() {
    all_promises_are_kept([60_000_237, 60_000_478, 60_000_488, 60_000_504, 60_000_662, 81_002_931].into_iter());
}

/// The seeds follow from the commit's hash, or from `MUNDI_SIM_COMMIT`; sources without a history have the fixed ones only.
#[test]
fn every_promise_is_kept_under_seeds_that_no_commit_has_run_before() {
    let Some(commit) = std::env::var("MUNDI_SIM_COMMIT").ok().or_else(head) else {
        eprintln!("there is no commit to derive seeds from");
        return;
    };
    let seeds = commit_seeds(&commit, COMMIT_SEEDS);
    eprintln!("commit {commit}: seeds {seeds:?}");
    all_promises_are_kept(seeds);
}

/// From the first 48 bits of its hash: below those that `cargo xtask nightly` takes.
fn commit_seeds(commit: &str, count: u64) -> Range<u64> {
    let digits = commit.bytes().map_while(|digit| char::from(digit).to_digit(16)).take(12);
    let from = digits.fold(0, |sum, digit| (sum << 4) | u64::from(digit));
    from..from + count
}

#[test]
fn commits_that_differ_have_other_seeds() {
    assert_eq!(commit_seeds("dd7abf9a0b1cffffffffffff", 3), 0xdd7a_bf9a_0b1c..0xdd7a_bf9a_0b1f);
    assert_ne!(commit_seeds("dd7abf9a0b1c", 3), commit_seeds("ed7abf9a0b1c", 3));
}

fn head() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout)?;
    String::from_utf8(text).ok().map(|text| text.trim().to_owned())
}

#[test]
fn without_faults_nothing_fails() {
    for seed in 0..4 {
        let outcome = run_seed(seed, &Faults::none(), false);
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert_eq!((outcome.tally.crashes, outcome.tally.unknown), (0, 0));
    }
}
