//! Suites that take too long for every change: simulator seeds that nobody has run before, a crash at every await, and the attacks on the
//! server at many times their size.

use crate::{
    run,
    suites::{self, Tier},
};
use std::{
    ops::Range,
    thread,
    time::{Duration, SystemTime},
};

/// Seeds of each family, unless the command says otherwise.
const SEEDS: u64 = 50_000;

/// One in so many seeds runs with these faults all at once, instead of with those that it chooses.
const TOGETHER_ONE_IN: u64 = 10;
const TOGETHER: &str =
    "latency,lost-requests,spurious-wakes,clock-jumps,duplicates,tiny-limits,upgrades,lifecycle,moves,pauses";

/// A run has 2^22 seeds for each second since the last one began. So two runs never share a seed, and all seeds are below 2^53, which
/// every reader of JSON prints exactly.
const SECOND_BITS: u32 = 22;

/// `cargo xtask nightly [SEEDS] [SUITE…]`.
pub(crate) fn all() -> bool {
    let named: Vec<_> = std::env::args().skip(2).filter(|argument| argument.parse::<u64>().is_err()).collect();
    suites::run(Tier::Nightly, &named)
}

/// How many the command asks for.
fn count() -> u64 {
    std::env::args().skip(2).find_map(|argument| argument.parse().ok()).unwrap_or(SEEDS)
}

pub(crate) fn simulation() -> bool {
    simulate(&told(count()), &[])
}

pub(crate) fn together() -> bool {
    simulate(&told(count().div_ceil(TOGETHER_ONE_IN)), &["--faults", TOGETHER, "--exact"])
}

/// Seeds that nobody has run, and how one of them is run again.
fn told(count: u64) -> Range<u64> {
    let range = seeds(now(), count);
    eprintln!("seeds {range:?}; a failure is repeated by `cargo run --release -p mundi-sim -- --seed N`");
    range
}

/// The families of seeds that `cargo xtask test` runs a few of: crate and test, the variable that says how many, and the share of the seeds of a night.
const FAMILIES: [(&str, &str, &str, u64); 6] = [
    ("sim", "children", "MUNDI_CHILD_SEEDS", 50),
    ("sim", "functions", "MUNDI_FUNCTION_SEEDS", 100),
    ("sim", "pools", "MUNDI_POOL_SEEDS", 50),
    ("sim", "seeds", "MUNDI_SIM_SEEDS", 50),
    ("sim", "fight", "MUNDI_FIGHT_SEEDS", 5_000),
    ("kernel", "pools", "MUNDI_POOL_SEEDS", 50),
];

pub(crate) fn families() -> bool {
    let count = count();
    FAMILIES.iter().all(|(folder, test, variable, one_in)| {
        let (package, seeds) = (format!("mundi-{folder}"), count.div_ceil(*one_in).to_string());
        run("cargo", &["test", "--release", "--package", &package, "--test", test], &[(variable, &seeds)])
    })
}

fn simulate(range: &Range<u64>, faults: &[&str]) -> bool {
    let (from, count) = (range.start.to_string(), (range.end - range.start).to_string());
    let jobs = thread::available_parallelism().map_or(1, usize::from).to_string();
    let simulator = ["run", "--release", "--package", "mundi-sim", "--"];
    let range = ["--from", &from, "--seeds", &count, "--jobs", &jobs];
    run("cargo", &[&simulator[..], &range, faults].concat(), &[])
}

/// The name of the tests that crash a node at one await after another.
const EVERY_AWAIT: &str = "a_node_that_dies_at_any_await";

pub(crate) fn every_await() -> bool {
    let crash_points = ["test", "--release", "--package", "mundi-adapters", "--test", "plane", EVERY_AWAIT];
    run("cargo", &crash_points, &[("MUNDI_EVERY_AWAIT", "1")])
}

/// So many times as long, or as large, as in every test run.
const HOSTILE_SCALE: &str = "20";

pub(crate) fn hostile() -> bool {
    let attacks = ["test", "--release", "--package", "mundi", "--test", "hostile"];
    run("cargo", &attacks, &[("MUNDI_HOSTILE_SCALE", HOSTILE_SCALE)])
}

fn seeds(since_1970: Duration, count: u64) -> Range<u64> {
    let from = since_1970.as_secs() << SECOND_BITS;
    from..from + count.min(1 << SECOND_BITS)
}

#[expect(clippy::disallowed_methods, reason = "the time only chooses what is run")]
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_begin_in_different_seconds_share_no_seed() {
        let (one, next) =
            (seeds(Duration::from_secs(1_790_000_000), u64::MAX), seeds(Duration::from_secs(1_790_000_001), 7));
        assert!(one.end <= next.start);
        assert!(one.start > 1 << 48 && next.end < 1 << 53, "beyond the seeds of commits, and exact in JSON");
    }

    #[test]
    fn every_family_of_seeds_runs_at_night() {
        let mut found = std::collections::BTreeSet::new();
        for source in crate::documents::files(".rs") {
            // `crates/FOLDER/tests/TEST.rs`, or a file of the folder `TEST`.
            let parts: Vec<_> = source.trim_end_matches(".rs").split('/').collect();
            let ["crates", folder @ ("sim" | "kernel"), "tests", test, ..] = parts[..] else { continue };
            let text = crate::documents::read(&source).unwrap();
            let variables = text.split('"').filter(|text| text.starts_with("MUNDI_") && text.ends_with("_SEEDS"));
            found.extend(variables.map(|variable| [folder, test, variable].map(str::to_owned)));
        }
        let named =
            FAMILIES.iter().map(|(folder, test, variable, _)| [folder, test, variable].map(|it| (*it).to_owned()));
        assert_eq!(found, named.collect());
    }

    /// A filter that matches no test passes.
    #[test]
    fn every_test_that_crashes_at_each_await_runs_at_night() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/adapters/tests/plane");
        let files =
            std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let with: Vec<_> = files.filter(|text| text.contains("MUNDI_EVERY_AWAIT")).collect();
        assert_eq!(with.len(), 2);
        assert!(with.iter().all(|text| text.contains(&format!("\nfn {EVERY_AWAIT}"))));
    }
}
