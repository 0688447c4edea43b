//! The console: `console/` is built into the archive that `crates/server` embeds, and tested in a real browser.
//!
//! Rust alone builds the server; node and Chromium are needed only here.

use crate::{
    guests::{self, on_path},
    run, services,
};
use std::{fs, path::Path};

const FOLDER: &str = "console";

/// `cargo xtask console`: writes the archive.
pub(crate) fn build() -> bool {
    installed() && built() && node(&["console/pack.mjs"], &[])
}

/// The archive is what the sources build, and every screen works in a browser.
pub(crate) fn test() -> bool {
    if !on_path("node") {
        eprintln!("node is not on the path: the console is not tested, and its archive not compared with its sources");
        return true;
    }
    installed() && built() && node(&["console/pack.mjs", "--check"], &[]) && browser(&[])
}

/// The same with a hundred thousand records and worlds.
pub(crate) fn large() -> bool {
    let large = [
        RELEASE[0],
        ("MUNDI_CONSOLE_RECORDS", "100000"),
        ("MUNDI_CONSOLE_JUMPS", "200"),
        ("MUNDI_CONSOLE_WORLDS", "100000"),
    ];
    installed() && release() && browser(&large)
}

/// Pictures for the README and the guide.
pub(crate) fn screenshots() -> bool {
    services::chromium()
        && guests::rust()
        && installed()
        && release()
        && node(&["console/tests/screenshots.mjs"], &RELEASE)
}

const RELEASE: [(&str, &str); 1] = [("MUNDI_PROFILE", "release")];

fn release() -> bool {
    run("cargo", &["build", "--release", "--package", "mundi", "--bin", "mundi"], &[])
}

/// The data has a program in Rust, with durable functions.
fn browser(environment: &[(&str, &str)]) -> bool {
    services::chromium()
        && guests::rust()
        && node(&["--test", "--test-reporter=spec", "console/tests/console.test.mjs"], environment)
}

/// Installs the packages of the lockfile, once for each lockfile.
fn installed() -> bool {
    let is_newer = |path: &str| fs::metadata(Path::new(FOLDER).join(path)).and_then(|it| it.modified()).ok();
    if is_newer("node_modules/.package-lock.json") >= is_newer("package-lock.json") {
        return true;
    }
    run("npm", &["ci", "--no-audit", "--no-fund", "--silent", "--prefix", FOLDER], &[])
}

/// The types come from the document of the binary: what the console asks for is in the API, or this fails.
fn built() -> bool {
    let bin = |name: &str| format!("{FOLDER}/node_modules/.bin/{name}");
    run("cargo", &["build", "--package", "mundi", "--bin", "mundi"], &[])
        && node(&["console/types.mjs"], &[])
        && run(&bin("tsc"), &["--project", FOLDER], &[])
        && run(&bin("vite"), &["build", "--logLevel", "warn", FOLDER], &[])
}

fn node(arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    run("node", arguments, environment)
}
