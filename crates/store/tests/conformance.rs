//! The conformance cases on every engine that exists.

use mundi_engine::{Embedded, Memory};
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
    };
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
