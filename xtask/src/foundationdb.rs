//! The engine on FoundationDB: type-checked in every test run, tested where there is a cluster.
//!
//! No package registry has its server, so nobody starts one here. `MUNDI_TEST_FDB` names the cluster file of one that runs; a run without it says what
//! was not tested.

use crate::run;
use std::{env, fs, process::Command};

/// The variable that names the cluster file.
const CLUSTER_FILE: &str = "MUNDI_TEST_FDB";

/// All that knows of the engine.
const FEATURES: [&str; 6] = [
    "mundi-engine/foundationdb",
    "mundi-engine/testing",
    "mundi-store/foundationdb",
    "mundi-server/foundationdb",
    "mundi-bench/foundationdb",
    "mundi/foundationdb",
];

/// Tests of the engine that need nothing but a cluster.
const TESTS: [&str; 2] = ["foundationdb_conformance", "foundationdb_processes"];

/// The suite of every change: lints the engine and all that uses it, without linking. The C header comes with the crate.
pub(crate) fn type_check() -> bool {
    let files = TESTS.iter().chain(&["foundationdb_faults", "all", "fleet"]);
    let targets: Vec<_> = files.flat_map(|name| ["--test", name]).collect();
    let features = FEATURES.join(",");
    // Of the whole workspace, so that what others depend on is not compiled again with other features.
    let arguments: [&[&str]; 3] = [
        &["clippy", "--workspace", "--lib", "--bins"],
        &targets,
        &["--features", &features, "--", "--deny", "warnings"],
    ];
    let arguments = arguments.concat();
    if !run("cargo", &arguments, &[]) {
        return false;
    }
    match cluster_file() {
        Some(_) => tests(),
        None => {
            eprintln!("{NOT_RUN}");
            true
        }
    }
}

const NOT_RUN: &str = "\
NOT RUN: the engine on FoundationDB was type-checked and linted, and its decisions were tested without a cluster. Its conformance suite, several
processes, faults, the store's cases, moves between engines and the fleet did not run: MUNDI_TEST_FDB names no cluster file.
Run them with `MUNDI_TEST_FDB=/etc/foundationdb/fdb.cluster cargo xtask test --engine foundationdb` (and `… foundationdb fleet`, `… foundationdb bench`).";

fn cluster_file() -> Option<String> {
    env::var(CLUSTER_FILE).ok().filter(|file| !file.is_empty())
}

/// The function behind `cargo xtask test --engine foundationdb [NAME]`; `None` if there is no such thing.
fn named(what: Option<&str>) -> Option<fn() -> bool> {
    match what {
        None => Some(tests),
        Some("fleet") => Some(fleet),
        Some("bench") => Some(bench),
        Some(_) => None,
    }
}

/// `cargo xtask test --engine foundationdb [fleet|bench]`.
pub(crate) fn command(arguments: &[String]) -> bool {
    let what = match arguments {
        [engine] if engine == "foundationdb" => None,
        [engine, what] if engine == "foundationdb" => Some(what.as_str()),
        _ => {
            eprintln!(
                "usage: cargo xtask test --engine foundationdb [fleet|bench]; all other engines are tested by `cargo xtask test`"
            );
            return false;
        }
    };
    let Some(run) = named(what) else {
        eprintln!("usage: cargo xtask test --engine foundationdb [fleet|bench]");
        return false;
    };
    if cluster_file().is_none() {
        eprintln!("{CLUSTER_FILE} names no cluster file: nothing was run");
        return false;
    }
    run()
}

fn tests() -> bool {
    let test = |package, features, tests: &[&str], only: &[&str]| {
        let tests: Vec<_> = tests.iter().flat_map(|name| ["--test", name]).collect();
        run("cargo", &[&["test", "--package", package, "--features", features], &tests[..], only].concat(), &[])
    };
    let engine = "foundationdb,testing";
    test("mundi-engine", engine, &TESTS, &[])
        && faults(|| test("mundi-engine", engine, &["foundationdb_faults"], &[]))
        && test("mundi-store", "foundationdb", &["all"], &["conformance::"])
        && test("mundi-server", "foundationdb", &["all"], &["transfer::"])
}

/// They stop and restart servers, so they start a cluster of their own with the programs of the official packages.
fn faults(test: impl FnOnce() -> bool) -> bool {
    let is_there = |name: &str, packaged: &str| {
        Command::new(name).arg("--version").output().is_ok() || fs::exists(packaged).unwrap_or(false)
    };
    if is_there("fdbserver", "/usr/sbin/fdbserver") && is_there("fdbcli", "/usr/bin/fdbcli") {
        return test();
    }
    eprintln!(
        "NOT RUN: foundationdb_faults (restarts, a lost machine, silence, versions that go back): `fdbserver` and `fdbcli` are not installed here"
    );
    true
}

fn fleet() -> bool {
    let fleet = [
        "test",
        "--release",
        "--package",
        "mundi",
        "--features",
        "foundationdb",
        "--test",
        "fleet",
        "--",
        "--nocapture",
    ];
    run("cargo", &fleet, &[])
}

fn bench() -> bool {
    let Some(file) = cluster_file() else { return false };
    let url = format!("foundationdb://{file}?prefix=bench");
    let bench = [
        "run",
        "--profile",
        "dist",
        "--package",
        "mundi-bench",
        "--features",
        "foundationdb",
        "--",
        "fleet",
        "--database",
        &url,
    ];
    run("cargo", &bench, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_knows_its_three_forms() {
        assert!(named(None).is_some() && named(Some("fleet")).is_some() && named(Some("bench")).is_some());
        assert!(named(Some("nonsense")).is_none());
        let refused = |words: &[&str]| !command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(refused(&[]) && refused(&["postgres"]) && refused(&["foundationdb", "nonsense"]));
    }

    /// A test that nobody runs tests nothing.
    #[test]
    fn every_test_file_of_the_engine_is_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/engine/tests");
        let own = include_str!("foundationdb.rs");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(test) = name.strip_suffix(".rs").filter(|name| name.starts_with("foundationdb_")) {
                assert!(own.contains(&format!("\"{test}\"")), "{test} is run by no command");
            }
        }
    }
}
