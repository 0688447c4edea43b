//! The suites of tests, the tier of each, and how long they took.
//!
//! A suite that every change must pass is in the tier `change`: together at most 40 minutes from a cold cache on two cores, 15 from a
//! warm one. What takes longer is in the tier `nightly`.

use crate::{
    clients, clippy, console, deny, doctests, documentation, format, foundationdb, fuzz, fuzz_api, guests,
    instructions, nightly, services,
};
use std::{
    fmt::Write,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Suites that every change must pass, in this order, up to the first failure.
    Change,
    /// The rest; each says what it finds, whatever the others find.
    Nightly,
}

impl Tier {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Nightly => "nightly",
        }
    }
}

pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) tier: Tier,
    pub(crate) what: &'static str,
    run: fn() -> bool,
}

const fn suite(tier: Tier, name: &'static str, what: &'static str, run: fn() -> bool) -> Suite {
    Suite { name, tier, what, run }
}

pub(crate) const SUITES: &[Suite] = &[
    suite(Tier::Change, "format", "rustfmt", format),
    suite(Tier::Change, "clippy", "lints, warnings denied", clippy),
    suite(Tier::Change, "rustdoc", "documentation of the crates, warnings denied", documentation),
    suite(Tier::Change, "licences", "cargo-deny: licences, bans, sources", deny::licences),
    suite(Tier::Change, "services", "installs what tests need besides Rust", services::install),
    suite(Tier::Change, "tests", "all tests of the workspace", crate::tests),
    suite(
        Tier::Change,
        "gate",
        "the stop gate: replays its fixtures, worlds and seeds, and tries an engine",
        crate::gate,
    ),
    suite(
        Tier::Change,
        "foundationdb",
        "lints the engine on FoundationDB without linking it; tests it where MUNDI_TEST_FDB names a cluster",
        foundationdb::type_check,
    ),
    suite(Tier::Change, "doctests", "examples in the documentation of the crates", doctests),
    suite(
        Tier::Change,
        "guests-two",
        "programs in Rust and TypeScript, one in Python (all where there is no node)",
        guests::two,
    ),
    suite(Tier::Change, "console", "the console in a browser; its archive is what console/ builds", console::test),
    suite(
        Tier::Change,
        "clients",
        "the clients in TypeScript and Python, and MCP, against a server that is killed",
        clients::test,
    ),
    suite(Tier::Change, "instructions", "instruction counts of the hot paths", instructions::check),
    suite(Tier::Nightly, "simulation", "50,000 seeds of the simulator that were never run", nightly::simulation),
    suite(Tier::Nightly, "simulation-together", "a tenth of them with ten faults at once", nightly::together),
    suite(
        Tier::Nightly,
        "simulation-families",
        "1,000 seeds each of children and pools, 500 of durable functions, and of the rest",
        nightly::families,
    ),
    suite(
        Tier::Nightly,
        "crash-points",
        "a whole node dies at every await, not at one in thirteen",
        nightly::every_await,
    ),
    suite(Tier::Nightly, "hostile", "attacks on the server, twenty times as long", nightly::hostile),
    suite(Tier::Nightly, "soak", "the randomized suites with far more seeds", crate::soak),
    suite(Tier::Nightly, "soak-server", "the server under load and random kills", crate::soak_server),
    suite(Tier::Nightly, "fleets", "a fleet of processes, 300 worlds, ten minutes of kills and cuts", crate::failover),
    suite(Tier::Nightly, "guests", "programs in Rust, TypeScript and Python", guests::all),
    suite(Tier::Nightly, "console-large", "the console with 100,000 records and worlds", console::large),
    suite(Tier::Nightly, "fuzz", "decoders under libFuzzer, those of components too, a minute each", fuzz::nightly),
    suite(Tier::Nightly, "fuzz-api", "schemathesis against the served OpenAPI document", fuzz_api),
    suite(Tier::Nightly, "s3-garage", "the object store against Garage, which is built first", crate::s3_garage),
];

/// A suite that ended, with its time.
struct Ended {
    suite: &'static Suite,
    took: Duration,
    passed: bool,
}

/// Runs the suites of a tier, or those of them that are named, and prints the time of each at the end.
pub(crate) fn run(tier: Tier, named: &[String]) -> bool {
    let of_tier = || SUITES.iter().filter(move |suite| suite.tier == tier);
    if let Some(unknown) = named.iter().find(|name| !of_tier().any(|suite| suite.name == **name)) {
        let known: Vec<_> = of_tier().map(|suite| suite.name).collect();
        eprintln!("there is no suite `{unknown}` in the tier {}; there are {}", tier.name(), known.join(", "));
        return false;
    }
    let mut ended = Vec::new();
    for suite in of_tier().filter(|suite| named.is_empty() || named.iter().any(|name| name == suite.name)) {
        let (passed, took) = timed(suite.run);
        ended.push(Ended { suite, took, passed });
        if !passed && tier == Tier::Change {
            break;
        }
    }
    eprint!("{}", table(tier, &ended));
    ended.iter().all(|ended| ended.passed)
}

#[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
fn timed(run: fn() -> bool) -> (bool, Duration) {
    let began = Instant::now();
    (run(), began.elapsed())
}

fn table(tier: Tier, ended: &[Ended]) -> String {
    let mut text = format!("\n{:<20} {:>9}  result (tier {})\n", "suite", "time", tier.name());
    for Ended { suite, took, passed } in ended {
        let result = if *passed { "passed" } else { "FAILED" };
        let _ = writeln!(text, "{:<20} {:>9}  {result}", suite.name, minutes(*took));
    }
    let all = ended.iter().map(|ended| ended.took).sum();
    let _ = writeln!(text, "{:<20} {:>9}", "together", minutes(all));
    text
}

fn minutes(took: Duration) -> String {
    format!("{}:{:02} min", took.as_secs() / 60, took.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_has_every_suite_with_its_time_and_the_sum() {
        let took = |seconds| Duration::from_secs(seconds);
        let ended = [
            Ended { suite: &SUITES[0], took: took(5), passed: true },
            Ended { suite: &SUITES[1], took: took(125), passed: false },
        ];
        let text = table(Tier::Change, &ended);
        for line in [
            "format                0:05 min  passed",
            "clippy                2:05 min  FAILED",
            "together              2:10 min",
        ] {
            assert!(text.lines().any(|there| there == line), "no `{line}` in:\n{text}");
        }
    }

    #[test]
    fn a_suite_that_does_not_exist_is_refused_and_nothing_runs() {
        assert!(!run(Tier::Change, &["simulation".to_owned()]), "it is in the other tier");
        assert!(!run(Tier::Nightly, &["nonsense".to_owned()]));
    }

    /// The workflow has a job for each suite of the night.
    #[test]
    fn the_nightly_workflow_runs_every_nightly_suite() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../.github/workflows/nightly.yml");
        let workflow = std::fs::read_to_string(path).unwrap();
        let list = workflow.split_once("suite: [").unwrap().1.split_once(']').unwrap().0;
        let run: BTreeSet<_> = list.split(',').map(str::trim).collect();
        let nightly: BTreeSet<_> = SUITES.iter().filter(|it| it.tier == Tier::Nightly).map(|it| it.name).collect();
        assert_eq!(run, nightly);
    }
}
