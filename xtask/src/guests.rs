//! Programs in Rust, TypeScript and Python, built by the compilers that people use and run by the real host.
//!
//! What comes from package registries is got by the builder itself (componentize-py, componentize-js); a Rust compiler for
//! wasm32 is got here.

use crate::{run, services};
use std::{fs, path::Path, process::Command};

const TARGET: &str = "wasm32-unknown-unknown";
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-16"];

/// All three languages.
pub(crate) fn all() -> bool {
    // Where `mundi program build` keeps them, too: the standard library for guests is built once.
    let cache = services::cache().display().to_string();
    let environment = [("MUNDI_GUESTS", "rust,ts,python"), ("MUNDI_GUESTS_CACHE", &*cache)];
    // With the features of the whole workspace: else the engine for components would be compiled a second time.
    let tests = ["test", "--workspace", "--test", "guests", "--", "--ignored", "--nocapture", "--test-threads", "1"];
    rust() && run("cargo", &tests, &environment)
}

/// A compiler for the target: rustup's, or Debian's with the sources of the standard library.
fn rust() -> bool {
    if has_target() || has_debian() {
        return true;
    }
    if run("rustup", &["target", "add", TARGET], &[]) {
        return true;
    }
    if !services::can_install() {
        eprintln!("no Rust compiler for {TARGET}: `rustup target add {TARGET}`, or on Debian, as root:");
        eprintln!("apt-get install {}", PACKAGES.join(" "));
        return false;
    }
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    let install = [&["install", "--quiet=2", "--yes", "--no-install-recommends"][..], &PACKAGES].concat();
    run("apt-get", &["update", "--quiet=2"], &quiet) && run("apt-get", &install, &quiet)
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
        && ["/usr/bin/rustc", "/usr/bin/cargo", "/usr/bin/wasm-ld-16"].iter().all(|path| Path::new(path).is_file())
}
