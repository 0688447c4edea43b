//! Programs as people write them, built by the compilers that people use. `cargo xtask guests` gets those and runs this.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it saw"
)]

mod awaits;
mod durable;
mod projects;
#[path = "../components/rig.rs"]
#[allow(dead_code, reason = "the tests of the host use the rest")]
mod rig;
mod saga;

use mundi_wasm::{
    Components, ComponentsConfig,
    build::{Builder, Language},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

/// The languages to run: all, or those that `MUNDI_GUESTS` names.
fn languages() -> Vec<Language> {
    let named = std::env::var("MUNDI_GUESTS").unwrap_or_else(|_| "rust,ts,python".to_owned());
    named.split(',').map(|name| name.parse().unwrap()).collect()
}

/// A builder whose caches stay between runs. It installs missing tools of the compilers, or the test names them.
fn builder() -> Builder {
    let cache = std::env::var_os("MUNDI_GUESTS_CACHE").map(PathBuf::from);
    Builder {
        install: true,
        check: true,
        cache: cache.unwrap_or_else(|| Builder::default().cache),
        tell,
        ..Builder::default()
    }
}

/// Reports the progress of steps that take minutes on a small machine.
#[expect(clippy::disallowed_methods, reason = "for people who wait; nothing depends on it")]
fn tell(what: &str) {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    println!("[{:>4} s] {what}", BEGAN.get_or_init(Instant::now).elapsed().as_secs());
}

/// A host that finds the code which the builder has compiled: an interpreter takes half a minute.
fn components() -> Arc<Components> {
    rig::components_with(ComponentsConfig {
        cache: Some(builder().cache.join("compiled")),
        ..ComponentsConfig::default()
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
