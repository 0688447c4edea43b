//! The engine on FoundationDB keeps the contract, on a real cluster.

#![allow(clippy::expect_used, reason = "a test")]

mod support;

use futures_util::future::BoxFuture;
use mundi_engine::{
    FoundationDb,
    conformance::Subject,
    foundationdb::{Options, testing::fresh_url},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Runtime;

struct ClusterSubject {
    runtime: Runtime,
    now_ms: Arc<AtomicU64>,
    /// By what the engine calls itself: the URL that it was opened with.
    urls: Mutex<BTreeMap<String, String>>,
}

impl ClusterSubject {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let (now_ms, urls) = (Arc::default(), Mutex::default());
        Self { runtime: runtime.expect("a runtime"), now_ms, urls }
    }

    async fn open_on(&self, url: String) -> FoundationDb {
        let now_ms = self.now_ms.clone();
        let clock_ms = Arc::new(move || now_ms.load(Ordering::SeqCst));
        let (options, at) = (Options { clock_ms, ..Options::default() }, url.clone());
        let opening = self.runtime.spawn(async move { FoundationDb::open_with(&at, options).await });
        let engine = opening.await.expect("no panic").expect("a cluster");
        self.urls.lock().insert(format!("{engine:?}"), url);
        engine
    }
}

impl Subject for ClusterSubject {
    type Engine = FoundationDb;

    async fn open(&self) -> FoundationDb {
        self.open_on(fresh_url()).await
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        support::on_a_thread(task);
    }

    async fn time_limit(&self) {
        support::after(Duration::from_secs(200)).await;
    }

    fn advance_ms(&self, _engine: &FoundationDb, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    /// The process forgets everything; the cluster's crash is tried elsewhere.
    async fn crash_and_reopen(&self, engine: FoundationDb) -> Option<FoundationDb> {
        let url = self.urls.lock().get(&format!("{engine:?}")).cloned()?;
        drop(engine);
        Some(self.open_on(url).await)
    }

    /// A step is a round trip, so fewer than elsewhere.
    fn seeds(&self) -> u64 {
        support::seeds() / 100
    }
}

fn prove(name: &str) {
    support::prove(&ClusterSubject::new(), name);
}

mundi_engine::conformance_tests!(crate::prove);
