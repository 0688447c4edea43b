//! Rules for every engine with every object store: public functions that anyone can run on theirs.
//!
//! A case fails by panicking with what it expected. Each works in a universe of its own, so that they can run one after
//! the other on the same stores.

#![expect(clippy::expect_used, reason = "a conformance case fails by panicking")]

mod cas;
mod cursor;
mod inbox;
mod journal;
mod segments;
mod snapshots;

pub use cas::cas_put_get_has;
pub use cursor::cursor_rises_and_nothing_is_taken_twice;
pub use inbox::inbox_order_with_concurrent_writers;
pub use journal::journal_append_conflicts;
pub use segments::segment_export_and_restore;
pub use snapshots::snapshots_are_immutable_and_baselines_never_go_back;

use crate::{
    StoreError,
    blobs::{Cas, CasConfig},
    objects::Objects,
    testing::{CountingEntropy, ManualClock},
};
use mundi_engine::Engine;
use mundi_model::{Code, Coded};
use std::sync::Arc;

fn content_store<E: Engine>(engine: &E, objects: &Objects) -> Cas<E> {
    let clock = Arc::new(ManualClock::at_ns(1));
    Cas::new(engine.clone(), objects.clone(), clock, Arc::new(CountingEntropy::default()), CasConfig::default())
}

/// The code of what was refused.
fn refused<T>(result: Result<T, StoreError>) -> Option<Code> {
    result.err().map(|error| error.code())
}
