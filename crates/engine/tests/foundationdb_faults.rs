//! The engine on FoundationDB when its cluster restarts, loses a machine, falls silent, or is younger than its data.
//!
//! Each test starts a cluster of three processes with `fdbserver` and `fdbcli` of the official packages.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

#[path = "support/cluster.rs"]
mod cluster;

use bytes::Bytes;
use cluster::{Cluster, eventually};
use mundi_engine::{CommitError, Committed, Engine, EngineError, FoundationDb, Transaction, foundationdb::Options};
use mundi_model::{Code, Coded};
use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Every wait of the engine is bounded by some seconds; twice that is hopeless.
const TIMELY: Duration = Duration::from_secs(25);

async fn opened(cluster: &Cluster) -> FoundationDb {
    eventually(async || FoundationDb::open_with(&cluster.url(), Options::default()).await).await
}

async fn put(engine: &FoundationDb, key: &str) -> Result<Committed, CommitError> {
    let mut tx = engine.begin().await?;
    tx.put(key.as_bytes(), "1")?;
    tx.commit().await
}

async fn get(engine: &FoundationDb, key: &str) -> Result<Option<Bytes>, EngineError> {
    engine.begin().await?.get(key.as_bytes()).await
}

/// The outcomes of many adds.
#[derive(Debug, Default)]
struct Counted {
    acknowledged: u64,
    unknown: u64,
    refused: u64,
}

/// Adds to a counter until it is told to stop.
async fn count(engine: FoundationDb, done: Arc<AtomicBool>) -> Counted {
    let mut counted = Counted::default();
    while !done.load(Ordering::SeqCst) {
        let Ok(mut tx) = engine.begin().await else { continue };
        tx.add(b"count", 1).unwrap();
        match tx.commit().await {
            Ok(_) => counted.acknowledged += 1,
            Err(CommitError::Unknown(_)) => counted.unknown += 1,
            Err(_) => counted.refused += 1,
        }
    }
    counted
}

/// Acknowledged adds are in the counter, refused ones are not, and those with an unknown result may be.
async fn is_in_bounds(engine: &FoundationDb, counted: &Counted) {
    let value = eventually(async || get(engine, "count").await).await.expect("a counter");
    let sum = u64::from_le_bytes(value[..].try_into().unwrap());
    let bounds = counted.acknowledged..=counted.acknowledged + counted.unknown;
    assert!(bounds.contains(&sum), "{sum} after {counted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_restarts_loses_nothing_and_is_found_again() {
    let mut cluster = Cluster::start();
    let engine = opened(&cluster).await;
    let before = eventually(async || put(&engine, "before").await).await.stamp();
    let done = Arc::new(AtomicBool::new(false));
    let counting = tokio::spawn(count(engine.clone(), done.clone()));
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.kill_all();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.launch_all();
        let again = eventually(async || put(&engine, "again").await).await.stamp();
        assert!(before < again, "stamps rise over a restart");
    }
    done.store(true, Ordering::SeqCst);
    let counted = counting.await.unwrap();
    assert!(counted.acknowledged > 0, "{counted:?}");
    is_in_bounds(&engine, &counted).await;
    assert!(get(&engine, "before").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_is_stopped_is_done_without() {
    let cluster = Cluster::start();
    let engine = opened(&cluster).await;
    let done = Arc::new(AtomicBool::new(false));
    let counting = tokio::spawn(count(engine.clone(), done.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.silence(1);
    eventually(async || put(&engine, "with two").await).await;
    cluster.heal();
    eventually(async || put(&engine, "with three").await).await;
    done.store(true, Ordering::SeqCst);
    let counted = counting.await.unwrap();
    is_in_bounds(&engine, &counted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "that it ends in time is what is tested")]
async fn a_cluster_that_falls_silent_is_a_timely_error_and_is_found_again() {
    let cluster = Cluster::start();
    let engine = opened(&cluster).await;
    put(&engine, "before").await.unwrap();
    cluster.silence(3);
    let began = Instant::now();
    let read = get(&engine, "before").await.unwrap_err();
    assert_eq!(read.code(), Code::DatabaseUnavailable, "{read}");
    let mut blind = engine.begin().await.unwrap();
    blind.add(b"count", 1).unwrap();
    let commit = blind.commit().await.unwrap_err();
    assert!(matches!(commit, CommitError::Unknown(_)), "it may still land: {commit}");
    assert!(began.elapsed() < TIMELY, "it took {:?}", began.elapsed());
    cluster.heal();
    let counted = Counted { unknown: 1, ..Counted::default() };
    eventually(async || put(&engine, "after").await).await;
    eventually(async || {
        let mut tx = engine.begin().await?;
        tx.add(b"count", 0)?;
        tx.commit().await
    })
    .await;
    is_in_bounds(&engine, &counted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "that it ends in time is what is tested")]
async fn a_cluster_that_cannot_be_reached_is_a_timely_error_at_the_start() {
    let began = Instant::now();
    let refused = FoundationDb::open_with("foundationdb://no:body@127.0.0.1:9", Options::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseUnavailable, "{refused}");
    assert!(began.elapsed() < TIMELY, "it took {:?}", began.elapsed());
}

const URL: &str = "MUNDI_FAULTS_URL";

/// Not a test by itself: a process that holds transactions open, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_holds_transactions_open() {
    let Ok(url) = std::env::var(URL) else { return };
    let engine = FoundationDb::open_with(&url, Options::default()).await.unwrap();
    let mut open = Vec::new();
    for number in 0..100u8 {
        let mut tx = engine.begin().await.unwrap();
        tx.get(b"shared").await.unwrap();
        tx.put(b"shared", vec![number]).unwrap();
        open.push(tx);
    }
    put(&engine, "ready").await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_with_transactions_open_is_in_nobodys_way() {
    let cluster = Cluster::start();
    let engine = opened(&cluster).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "one_that_holds_transactions_open", "--nocapture"]).stdout(Stdio::null());
    let mut process = command.env(URL, cluster.url()).spawn().unwrap();
    eventually(async || get(&engine, "ready").await.unwrap().ok_or("not yet")).await;
    process.kill().unwrap();
    process.wait().unwrap();
    let mut tx = engine.begin().await.unwrap();
    assert_eq!(tx.get(b"shared").await.unwrap(), None, "nothing of what was open was applied");
    tx.put(b"shared", "mine").unwrap();
    tx.commit().await.expect("nothing conflicts with what was never committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_below_what_its_data_has_seen_is_refused() {
    let cluster = Cluster::start();
    drop(opened(&cluster).await);
    // As a backup of an older cluster would have left it: a version of the far future, eight bytes, little-endian.
    assert!(cluster.exec(r"writemode on; set mundi/mversion \x00\x00\x00\x00\x00\x00\x00\x10"));
    let refused = FoundationDb::open_with(&cluster.url(), Options::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseVersionBehind, "{refused}");
    let imported = Options { imported_version: 1 << 60, ..Options::default() };
    let other = format!("{}?prefix=other", cluster.url());
    let refused = FoundationDb::open_with(&other, imported).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseVersionBehind, "{refused}");
    let EngineError::VersionBehind { needed, .. } = refused else { panic!("{refused}") };
    assert!(cluster.exec(&format!("advanceversion {needed}")));
    let engine = opened(&cluster).await;
    assert!(engine.begin().await.unwrap().version().await.unwrap() >= needed, "stamps are above all that was seen");
}
