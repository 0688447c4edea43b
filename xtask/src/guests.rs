//! Programs in Rust, TypeScript and Python, built by the compilers that people use and run by the real host.
//!
//! The builder itself gets the tools of package registries (componentize-py, componentize-js); a Rust compiler for
//! wasm32 is got here. All of it stays in the user's cache folder: only the first run pays.

use crate::{run, services};
use std::{fs, path::Path, process::Command};

const TARGET: &str = "wasm32-unknown-unknown";
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-16"];

/// All three languages.
pub(crate) fn all() -> bool {
    let missing: Vec<_> = ["node", "npm", "python3"].into_iter().filter(|tool| !on_path(tool)).collect();
    if !missing.is_empty() {
        eprintln!("{} not on the path: {NEEDS}", missing.join(", "));
        return false;
    }
    rust() && tests("rust,ts,python", &[])
}

/// Rust and one other: TypeScript, which is built sooner, or Python where there is no node. Beside TypeScript, the trial of the first real program
/// runs in Python, too: it takes about a minute, everything else in Python several.
pub(crate) fn two() -> bool {
    let others: [(&str, &[&str]); 2] = [("ts", &["node", "npm"]), ("python", &["python3"])];
    let Some((other, _)) = others.iter().find(|(_, tools)| tools.iter().all(|tool| on_path(tool))) else {
        eprintln!("neither node nor python3 is on the path: {NEEDS}");
        return false;
    };
    let has_python = *other == "ts" && on_path("python3");
    rust() && tests(&format!("rust,{other}"), &[]) && (!has_python || tests("python", &["the_todo_agent"]))
}

const NEEDS: &str =
    "programs in TypeScript are built with node 20 or later and npm, those in Python with python3 and its `venv`";

/// Runs the tests, or those whose names contain one of the words, in these languages.
fn tests(languages: &str, words: &[&str]) -> bool {
    // Where `mundi program build` keeps them, too: compilers are got once, and so is what they made.
    let cache = services::cache().display().to_string();
    let environment = [("MUNDI_GUESTS", languages), ("MUNDI_GUESTS_CACHE", &*cache)];
    // With the features of the whole workspace: else the engine for components would be compiled a second time.
    let tests = ["test", "--workspace", "--test", "guests", "--test", "cli"];
    let how = ["--", "--ignored", "--nocapture", "--test-threads", "1"];
    run("cargo", &[&tests[..], &how, words].concat(), &environment)
}

/// A compiler for the target: rustup's, or Debian's with the sources of the standard library.
pub(crate) fn rust() -> bool {
    if has_target() || has_debian() {
        return true;
    }
    // A machine that reaches only its package registries should hear so soon.
    let bounds = [("RUSTUP_MAX_RETRIES", "1"), ("RUSTUP_DOWNLOAD_TIMEOUT", "60")];
    if on_path("rustup") && run("rustup", &["target", "add", TARGET], &bounds) {
        return true;
    }
    if !services::can_install() {
        eprintln!("no Rust compiler for {TARGET}: `rustup target add {TARGET}`, or on Debian, as root:");
        eprintln!("apt-get install {}", PACKAGES.join(" "));
        return false;
    }
    services::apt(&PACKAGES)
}

pub(crate) fn on_path(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn has_target() -> bool {
    let printed = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    printed.is_ok_and(|printed| {
        let folder = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
        fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
    })
}

fn has_debian() -> bool {
    let sources = fs::read_dir("/usr/src").into_iter().flatten().filter_map(Result::ok);
    let has_sources = sources.map(|entry| entry.path().join("library/std/Cargo.toml")).any(|path| path.is_file());
    has_sources
        && ["/usr/bin/cargo", "/usr/bin/wasm-ld-16"].iter().all(|path| Path::new(path).is_file())
        && minor_of("/usr/bin/rustc").is_some_and(|minor| minor >= RUSTC_MINOR_MIN)
}

/// The SDK needs rustc 1.87; a machine whose package lists are old may have an older one.
const RUSTC_MINOR_MIN: u32 = 87;

fn minor_of(rustc: &str) -> Option<u32> {
    let said = Command::new(rustc).arg("--version").output().ok()?;
    String::from_utf8_lossy(&said.stdout).strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}
