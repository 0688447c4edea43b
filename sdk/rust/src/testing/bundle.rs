//! The history of a recorded world as a unit test.

use std::{path::Path, process::Command};

/// Replays a bundle, which `mundi world export` writes, with the program of this project: each recorded input must lead to the same cells, effects and
/// replies, and each running instance of a durable function must be able to go on. Panics with where it does not.
///
/// Builds the component of the project in the working directory, which is that of the package in `cargo test`, by the `mundi` on the path.
#[track_caller]
pub fn replay_bundle(bundle: impl AsRef<Path>) {
    replay(bundle.as_ref(), &[]);
}

/// Replays only what an upgrade at the end of the bundle would compare: running instances of durable functions by what is on record of them, also where
/// `ctx.version` has another way for new ones, and the outputs of steps that are of no function.
#[track_caller]
pub fn replay_open_work(bundle: impl AsRef<Path>) {
    replay(bundle.as_ref(), &["--open-work"]);
}

#[track_caller]
fn replay(bundle: &Path, options: &[&str]) {
    let mut mundi = Command::new("mundi");
    mundi.args(["world", "replay", "--program", ".", "--bundle"]).arg(bundle).args(options);
    let replayed = mundi.output().unwrap_or_else(|error| panic!("`mundi` does not run: {error}"));
    let said = [replayed.stdout, replayed.stderr].concat();
    assert!(replayed.status.success(), "{}: {}", bundle.display(), String::from_utf8_lossy(&said));
}
