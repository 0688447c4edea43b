//! The embedded engine keeps the contract, also over a disk that loses what was not synced.

#![allow(clippy::expect_used, reason = "a test")]

mod support;

use futures_util::future::BoxFuture;
use mundi_engine::{
    Embedded,
    conformance::Subject,
    embedded::{Options, sim_disk::SimDisk},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

#[derive(Default)]
struct EmbeddedSubject {
    now_ms: Arc<AtomicU64>,
    folders: Mutex<BTreeMap<PathBuf, (TempDir, SimDisk)>>,
    opened: AtomicU64,
}

impl EmbeddedSubject {
    /// Small tables and segments, so that even a short property writes files and changes segments.
    fn options(&self, disk: &SimDisk) -> Options {
        let now_ms = self.now_ms.clone();
        Options {
            segment_bytes: 64 << 10,
            memtable_bytes: 64 << 10,
            clock_ms: Arc::new(move || now_ms.load(Ordering::SeqCst)),
            disk: Some(Arc::new(disk.clone())),
            ..Options::default()
        }
    }
}

impl Subject for EmbeddedSubject {
    type Engine = Embedded;

    async fn open(&self) -> Embedded {
        let folder = support::fast_folder();
        let disk = SimDisk::new(self.opened.fetch_add(1, Ordering::SeqCst));
        let engine = Embedded::open_with(folder.path(), &self.options(&disk)).expect("an empty folder");
        self.folders.lock().insert(folder.path().to_owned(), (folder, disk));
        engine
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        support::on_a_thread(task);
    }

    async fn time_limit(&self) {
        support::after(Duration::from_secs(120)).await;
    }

    fn advance_ms(&self, _engine: &Embedded, passed_ms: u64) -> bool {
        self.now_ms.fetch_add(passed_ms, Ordering::SeqCst);
        true
    }

    async fn crash_and_reopen(&self, engine: Embedded) -> Option<Embedded> {
        let path = engine.path().to_owned();
        let disk = {
            let mut folders = self.folders.lock();
            let (_, disk) = folders.get_mut(&path)?;
            *disk = disk.crash();
            disk.clone()
        };
        drop(engine);
        Some(Embedded::open_with(&path, &self.options(&disk)).expect("what survived"))
    }

    fn seeds(&self) -> u64 {
        support::seeds() / 10
    }
}

fn prove(name: &str) {
    support::prove(&EmbeddedSubject::default(), name);
}

mundi_engine::conformance_tests!(crate::prove);
