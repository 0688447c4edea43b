//! Several processes on one cluster: stamps appear in one order to all of them.

#![allow(clippy::expect_used, reason = "a test")]

#[path = "support/processes.rs"]
mod processes;

use mundi_engine::{
    FoundationDb,
    foundationdb::{
        Options,
        testing::{fresh_prefix, url_of},
    },
};

async fn opened(prefix: String) -> FoundationDb {
    FoundationDb::open_with(&url_of(&prefix), Options::default()).await.expect("a cluster")
}

/// Not a test by itself: one of the processes that write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_processes() {
    processes::write_if_started(opened).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stamp_of_any_process_appears_behind_one_already_seen() {
    let place = fresh_prefix();
    processes::stamps_of_processes_rise(&place, opened(place.clone()).await).await;
}
