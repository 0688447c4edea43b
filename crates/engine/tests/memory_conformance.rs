//! The reference engine keeps the contract.

mod support;

use futures_util::future::BoxFuture;
use mundi_engine::{Memory, conformance::Subject};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[derive(Default)]
struct MemorySubject {
    now_ms: Arc<AtomicU64>,
}

impl Subject for MemorySubject {
    type Engine = Memory;

    async fn open(&self) -> Memory {
        let now_ms = self.now_ms.clone();
        Memory::with_clock(Arc::new(move || now_ms.load(Ordering::SeqCst)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        support::on_a_thread(task);
    }

    async fn time_limit(&self) {
        support::after(Duration::from_secs(60)).await;
    }

    fn advance_ms(&self, _engine: &Memory, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    fn seeds(&self) -> u64 {
        support::seeds()
    }
}

fn prove(name: &str) {
    support::prove(&MemorySubject::default(), name);
}

mundi_engine::conformance_tests!(crate::prove);
