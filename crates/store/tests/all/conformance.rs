//! The conformance cases on every engine that exists: PostgreSQL is a real server, started by the first test that asks for it; FoundationDB is the
//! cluster that `MUNDI_TEST_FDB` names, with the feature `foundationdb`.

#[cfg(feature = "foundationdb")]
use mundi_engine::foundationdb::testing::fresh_url;
use mundi_engine::{
    Embedded, Memory, Postgres,
    postgres::{
        Options,
        testing::{fresh_schema, shared},
    },
};
use mundi_store::{
    conformance,
    objects::{self, Objects},
    testing::HeapBlobs,
};
use pollster::block_on;

macro_rules! on_every_engine {
    ($($case:ident => |$engine:ident| $run:expr;)*) => {
        mod memory {
            use super::*;
            $(#[test] fn $case() { let $engine = &Memory::new(); block_on($run); })*
        }
        mod embedded {
            use super::*;
            $(#[test] fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let $engine = &Embedded::open(folder.path()).unwrap();
                block_on($run);
            })*
        }
        mod postgres {
            use super::*;
            $(#[test] fn $case() {
                let database = Database::open();
                let $engine = &database.engine;
                block_on($run);
            })*
        }
        #[cfg(feature = "foundationdb")]
        mod foundationdb {
            use super::*;
            $(#[test] fn $case() {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
                let (url, options) = (fresh_url(), mundi_engine::foundationdb::Options::default());
                let $engine = &runtime.block_on(mundi_engine::FoundationDb::open_with(&url, options)).unwrap();
                block_on($run);
            })*
        }
    };
}

/// A schema of its own, with the runtime that carries its connections.
struct Database {
    engine: Postgres,
    _runtime: tokio::runtime::Runtime,
}

impl Database {
    #[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let options = Options { schema: fresh_schema(), ..Options::default() };
        let engine = runtime.block_on(Postgres::open_with(shared().url(), options)).unwrap();
        Self { engine, _runtime: runtime }
    }
}

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn in_memory() -> Objects {
    objects::open("memory:///").unwrap()
}

on_every_engine! {
    content_is_named_by_its_hash => |engine| conformance::cas_put_get_has(engine, &in_memory());
    content_in_a_folder_is_named_by_its_hash => |engine| async {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects::open(&folder.path().display().to_string()).unwrap();
        conformance::cas_put_get_has(engine, &objects).await;
    };
    an_export_changes_nothing_that_is_read => |engine| conformance::segment_export_and_restore(engine, &in_memory());
    an_export_to_a_folder_changes_nothing_that_is_read => |engine| async {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects::open(&folder.path().display().to_string()).unwrap();
        conformance::segment_export_and_restore(engine, &objects).await;
    };
    a_journal_takes_a_batch_at_its_head => |engine| conformance::journal_append_conflicts(engine);
    an_inbox_has_one_order => |engine| conformance::inbox_order_with_concurrent_writers(engine);
    a_cursor_only_rises => |engine| conformance::cursor_rises_and_nothing_is_taken_twice(engine);
    a_baseline_never_goes_back =>
        |engine| conformance::snapshots_are_immutable_and_baselines_never_go_back(engine, HeapBlobs::default());
}
