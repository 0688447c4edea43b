//! The engine on PostgreSQL keeps the contract, against a real server.

#![cfg(feature = "testing")]
#![allow(clippy::expect_used, reason = "a test")]

mod support;

use futures_util::future::BoxFuture;
use mundi_engine::{
    Postgres,
    conformance::Subject,
    postgres::{
        Options,
        testing::{fresh_schema, shared},
    },
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

struct PostgresSubject {
    runtime: Runtime,
    now_ms: Arc<AtomicU64>,
    /// By what the engine calls itself: the schema that it was opened on.
    schemas: Mutex<BTreeMap<String, String>>,
}

impl PostgresSubject {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let (now_ms, schemas) = (Arc::default(), Mutex::default());
        Self { runtime: runtime.expect("a runtime"), now_ms, schemas }
    }

    async fn open_on(&self, schema: String) -> Postgres {
        let now_ms = self.now_ms.clone();
        let clock_ms = Arc::new(move || now_ms.load(Ordering::SeqCst));
        let options = Options { schema: schema.clone(), clock_ms, connections_max: 40 };
        let opening = self.runtime.spawn(async move { Postgres::open_with(shared().url(), options).await });
        let engine = opening.await.expect("no panic").expect("a database");
        self.schemas.lock().insert(format!("{engine:?}"), schema);
        engine
    }
}

impl Subject for PostgresSubject {
    type Engine = Postgres;

    async fn open(&self) -> Postgres {
        self.open_on(fresh_schema()).await
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        support::on_a_thread(task);
    }

    async fn time_limit(&self) {
        support::after(Duration::from_secs(200)).await;
    }

    fn advance_ms(&self, _engine: &Postgres, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    /// The process forgets everything; the server's crash is tried elsewhere.
    async fn crash_and_reopen(&self, engine: Postgres) -> Option<Postgres> {
        let schema = self.schemas.lock().get(&format!("{engine:?}")).cloned()?;
        drop(engine);
        Some(self.open_on(schema).await)
    }

    /// A step is a round trip, so fewer than elsewhere.
    fn seeds(&self) -> u64 {
        support::seeds() / 100
    }
}

fn prove(name: &str) {
    support::prove(&PostgresSubject::new(), name);
}

mundi_engine::conformance_tests!(crate::prove);
