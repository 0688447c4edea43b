//! Several processes on one database: stamps appear in one order to all of them.

#![cfg(feature = "testing")]
#![allow(clippy::expect_used, reason = "a test")]

#[path = "support/processes.rs"]
mod processes;

use mundi_engine::{
    Postgres,
    postgres::{
        Options,
        testing::{fresh_schema, shared},
    },
};

async fn opened(schema: String) -> Postgres {
    Postgres::open_with(shared().url(), Options { schema, ..Options::default() }).await.expect("a database")
}

/// Not a test by itself: one of the processes that write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_processes() {
    processes::write_if_started(opened).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stamp_of_any_process_appears_behind_one_already_seen() {
    let place = fresh_schema();
    processes::stamps_of_processes_rise(&place, opened(place.clone()).await).await;
}
