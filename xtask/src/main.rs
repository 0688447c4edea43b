//! The developer commands. `cargo xtask` lists them; CONTRIBUTING.md has a line for each.

#[cfg(test)]
mod architecture;
mod clients;
mod console;
mod deny;
mod documents;
mod foundationdb;
mod fuzz;
mod guests;
mod instructions;
mod nightly;
mod services;
mod suites;

use std::process::{Command, ExitCode};
use suites::{SUITES, Tier};

/// Name, what it does, and whether it went well.
type Entry = (&'static str, &'static str, fn() -> bool);

const COMMANDS: &[Entry] = &[
    ("test", "what every change must pass: all suites of the tier `change`, or those that are named", test),
    (
        "nightly",
        "the suites of the tier `nightly`, or those that are named; a number is that of simulator seeds",
        nightly::all,
    ),
    ("lint", "format, lints and docs only", lint),
    (
        "docs",
        "writes the pages that are made from the sources: limits, metrics, the list of error codes",
        documents::write,
    ),
    (
        "services",
        "installs what tests need besides Rust, where it is missing: PostgreSQL, libclang, moto, API generators",
        services::install,
    ),
    ("clients", "writes clients/openapi.json and the types of the clients; needs node and Python", clients::generate),
    ("console", "builds console/ into the archive that the server embeds; needs node", console::build),
    ("console-screenshots", "pictures of the console for the README and the guide", console::screenshots),
    ("guests", "the same program in Rust, TypeScript and Python; gets their compilers", guests::all),
    ("soak", "the randomized suites with far more seeds (about ten minutes)", soak),
    ("soak-server", "the server under load and random kills: ten minutes, then fifty kills with proof", soak_server),
    ("failover", "a fleet of processes, 300 worlds, ten minutes of deaths and cuts", failover),
    ("s3-garage", "the object store against Garage, which is built first (16 CPU-minutes)", s3_garage),
    ("fuzz", "decoders under libFuzzer, a minute each; `fuzz 600 components` for longer and more", fuzz::all),
    ("fuzz-api", "schemathesis against the served OpenAPI document", fuzz_api),
    (
        "instructions",
        "counts the instructions of the hot paths, and fails if they are more than they were",
        instructions::check,
    ),
    ("instructions-bless", "writes down how many they are now", instructions::bless),
    ("bench", "the benchmarks of every layer beside the raw limit (about ten minutes)", bench),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let command = COMMANDS.iter().find(|(command, ..)| Some(*command) == name.as_deref());
    match command {
        Some((_, _, run)) if run() => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => {
            usage();
            ExitCode::from(2)
        }
    }
}

fn usage() {
    eprintln!("usage: cargo xtask COMMAND\n");
    for (command, what, _) in COMMANDS {
        eprintln!("  {command:<20} {what}");
    }
    eprintln!("\nsuites of `cargo xtask test` and `cargo xtask nightly`, with their tier:\n");
    for suite in SUITES {
        eprintln!("  {:<20} {:<8} {}", suite.name, suite.tier.name(), suite.what);
    }
}

/// `cargo xtask test [SUITE…]`, or `cargo xtask test --engine ENGINE […]`.
fn test() -> bool {
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "--engine" => foundationdb::command(rest),
        _ => suites::run(Tier::Change, &arguments),
    }
}

fn lint() -> bool {
    format() && clippy() && documentation()
}

fn format() -> bool {
    run("cargo", &["fmt", "--all", "--check"], &[])
}

fn clippy() -> bool {
    run("cargo", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"], &[])
}

fn documentation() -> bool {
    run("cargo", &["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "--deny warnings")])
}

/// With nextest where it is installed: it runs more at a time and says more when a test fails.
fn tests() -> bool {
    let seed = property_seed();
    eprintln!("PROPTEST_RNG_SEED={seed}: the property tests of a commit draw the same cases wherever they run");
    let environment = [("PROPTEST_RNG_SEED", &*seed)];
    if has("nextest") {
        return run("cargo", &["nextest", "run", "--workspace", "--no-fail-fast"], &environment);
    }
    run("cargo", &["test", "--workspace", "--all-targets", "--no-fail-fast"], &environment)
}

/// Follows from the commit's hash, as the simulator's seeds do: each commit draws new cases, and a commit that passed passes again.
fn property_seed() -> String {
    if let Ok(seed) = std::env::var("PROPTEST_RNG_SEED") {
        return seed;
    }
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output().ok();
    let hash = head.and_then(|head| String::from_utf8(head.stdout).ok());
    let seed = hash.and_then(|hash| u64::from_str_radix(hash.get(..16)?, 16).ok());
    seed.unwrap_or_default().to_string()
}

/// The stop gate on its fixtures, with the metrics that were there before it, in one report.
fn gate() -> bool {
    let manifest = "spec/fixtures/stop_gate/vnext_plus9_manifest.json";
    run(
        "cargo",
        &["run", "--quiet", "-p", "mundi", "--", "gate", "--manifest", manifest, "--earlier", "--format", "json"],
        &[],
    )
}

fn doctests() -> bool {
    run("cargo", &["test", "--workspace", "--doc", "--quiet"], &[])
}

/// Of the engines, which have them: one test may take an hour.
fn soak() -> bool {
    let seeds = [("MUNDI_SEEDS", "100000"), ("MUNDI_CONFORMANCE_SEEDS", "60000")];
    let nextest: &[&str] = &["nextest", "run", "--profile", "soak"];
    let how = if has("nextest") { nextest } else { &["test", "--all-targets"] };
    let what = ["--package", "mundi-engine", "--no-fail-fast"];
    services::install() && run("cargo", &[how, &what].concat(), &seeds)
}

fn soak_server() -> bool {
    let api = ["test", "--release", "--package", "mundi", "--test", "api", "soak", "--", "--nocapture"];
    let cli = ["test", "--release", "--package", "mundi", "--test", "cli", "crash", "--", "--nocapture"];
    run("cargo", &api, &[("MUNDI_SOAK_SECONDS", "600")]) && run("cargo", &cli, &[("MUNDI_KILLS", "50")])
}

fn failover() -> bool {
    let long = [("MUNDI_FAILOVER_SECONDS", "600"), ("MUNDI_FAILOVER_WORLDS", "300")];
    let arguments = ["test", "--release", "--package", "mundi", "--test", "fleet", "--", "--nocapture"];
    services::install() && run("cargo", &arguments, &long)
}

fn s3_garage() -> bool {
    run("sh", &["xtask/s3-garage.sh"], &[])
}

/// In a folder of its own, because the tool belongs to nobody's Python.
fn fuzz_api() -> bool {
    run("cargo", &["build", "--package", "mundi"], &[]) && run("sh", &["xtask/fuzz-api.sh"], &[])
}

fn bench() -> bool {
    let layer = |name| run("cargo", &["run", "--profile", "dist", "--package", "mundi-bench", "--", name], &[]);
    let kernel = ["run", "--profile", "dist", "--package", "mundi-kernel", "--example", "kernel_bench"];
    layer("engine") && layer("store") && layer("runtime") && run("cargo", &kernel, &[])
}

fn has(subcommand: &str) -> bool {
    let found = Command::new("cargo").args([subcommand, "--version"]).output();
    found.is_ok_and(|output| output.status.success())
}

fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    eprintln!("▶ {program} {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).envs(environment.iter().copied()).status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{program}: {error}");
            false
        }
    }
}
