//! The checkup reports each property of a database that is unfit for a fleet by its name.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_engine::postgres::testing::Server;
use mundi_server::{
    checkup::{Sign, Verdict, look},
    config::Config,
};
use std::path::Path;

async fn looked_at(url: &str, objects: &Path, connections: &str) -> Vec<Sign> {
    let settings = [
        ("MUNDI_ENGINE__URL", url.to_owned()),
        ("MUNDI_ENGINE__CONNECTIONS_MAX", connections.to_owned()),
        ("MUNDI_OBJECTS__URL", format!("file://{}", objects.display())),
    ];
    let config = Config::load(None, settings.map(|(name, value)| (name.to_owned(), value)), &[]).unwrap();
    look(&config).await
}

fn not_good(signs: &[Sign]) -> Vec<(&str, Verdict)> {
    signs.iter().filter(|sign| sign.verdict != Verdict::Good).map(|sign| (sign.check, sign.verdict)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_unfit_is_told_apart_from_one_that_is_well() {
    let objects = tempfile::tempdir().unwrap();
    let well = Server::start(&[]);
    assert_eq!(not_good(&looked_at(&well.url(), objects.path(), "16").await), []);
    let nobody = well.url().replace("mundi@", "nobody@");
    assert_eq!(not_good(&looked_at(&nobody, objects.path(), "16").await), [("database", Verdict::Wrong)]);
    drop(well);
    let unfit = Server::start(&["-c fsync=off -c full_page_writes=off -c max_connections=20"]);
    let expected = [("fsync", Verdict::Wrong), ("full_page_writes", Verdict::Wrong), ("connections", Verdict::Look)];
    assert_eq!(not_good(&looked_at(&unfit.url(), objects.path(), "64").await), expected);
}
