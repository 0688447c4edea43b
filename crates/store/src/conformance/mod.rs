//! What must hold on every engine with every object store: public functions that anyone can run on theirs.
//!
//! A case fails by panicking with what it expected. Each works in a universe of its own, so that they can run one after
//! the other on the same stores.

#![expect(clippy::expect_used, reason = "a conformance case fails by panicking")]

mod cas;
mod segments;

pub use cas::cas_put_get_has;
pub use segments::segment_export_and_restore;

use crate::{
    blobs::{Cas, CasConfig},
    objects::Objects,
    testing::{CountingEntropy, ManualClock},
};
use mundi_engine::Engine;
use std::sync::Arc;

fn content_store<E: Engine>(engine: &E, objects: &Objects) -> Cas<E> {
    let clock = Arc::new(ManualClock::at_ns(1));
    Cas::new(engine.clone(), objects.clone(), clock, Arc::new(CountingEntropy::default()), CasConfig::default())
}

#[cfg(test)]
mod tests;
