//! `cargo deny`: licences, bans and sources. Installed where it is missing, once, into the cache folder.

use crate::{has, run, services};
use std::path::PathBuf;

/// The version that `deny.toml` was written for.
const VERSION: &str = "0.20.2";

/// Advisories are looked for by the nightly workflow, which can reach their database.
pub(crate) fn licences() -> bool {
    // Not offline: cargo has to know the licences of what other platforms need, too, and may have to fetch them.
    let check = ["--locked", "check", "licenses", "bans", "sources"];
    if has("deny") {
        return run("cargo", &[&["deny"], &check[..]].concat(), &[]);
    }
    let program = folder().join("bin/cargo-deny").display().to_string();
    (folder().join("bin/cargo-deny").exists() || install()) && run(&program, &check, &[])
}

fn folder() -> PathBuf {
    services::cache().join("cargo-deny")
}

/// Without optimization: 74 s of CPU time, so about a minute on two cores (2:07 min beside other builds), and fast enough.
fn install() -> bool {
    let root = folder().display().to_string();
    let target = folder().join("target");
    let arguments = ["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--quiet", "--root", &root];
    let built = target.display().to_string();
    let installed = run("cargo", &arguments, &[("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_TARGET_DIR", &built)]);
    if !installed {
        eprintln!("cargo-deny could not be installed: `cargo install cargo-deny --locked`");
    }
    // What building left behind is hundreds of megabytes that nobody needs again.
    let _ = std::fs::remove_dir_all(target);
    installed
}
