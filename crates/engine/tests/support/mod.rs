//! Code that the test binaries share: a subject that runs tasks on threads, and the proof of a property on it.

#![allow(dead_code, reason = "each test binary takes what it needs")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "tests fail and speak this way")]

use futures_util::future::BoxFuture;
use mundi_engine::conformance::{Finding, Subject, properties};
use std::time::Duration;

/// How many seeds randomized properties try, for longer runs.
const SEEDS_VARIABLE: &str = "MUNDI_CONFORMANCE_SEEDS";

pub(crate) fn seeds() -> u64 {
    let given = std::env::var(SEEDS_VARIABLE).ok();
    given.map_or(2_000, |seeds| seeds.parse().expect("MUNDI_CONFORMANCE_SEEDS is a number"))
}

/// Runs a task on a thread of its own.
pub(crate) fn on_a_thread(task: BoxFuture<'static, ()>) {
    std::thread::spawn(move || pollster::block_on(task));
}

/// Completes after so long.
pub(crate) async fn after(wait: Duration) {
    let (sender, elapsed) = futures_channel::oneshot::channel();
    std::thread::spawn(move || {
        #[expect(clippy::disallowed_methods, reason = "the time limit is real time, here at the edge")]
        std::thread::sleep(wait);
        let _gone = sender.send(());
    });
    let _ = elapsed.await;
}

/// Proves the property of this name, or fails the test with its story.
pub(crate) fn prove<S: Subject>(subject: &S, name: &str) {
    let property = properties::<S>().into_iter().find(|property| property.name == name).expect("a known property");
    match pollster::block_on(property.prove(subject)) {
        Ok(()) => {}
        Err(Finding::NotApplicable(why)) => println!("skipped: {why}"),
        Err(Finding::Violation(story)) => panic!("{name}: {story}"),
    }
}

/// A folder in memory where there is one: these tests simulate the loss of power by other means.
pub(crate) fn fast_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}
