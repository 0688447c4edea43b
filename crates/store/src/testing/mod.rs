//! Stand-ins for the outside, for tests of this crate and of those above it.

mod blobs;
mod environment;

pub use blobs::HeapBlobs;
pub use environment::{CountingEntropy, ManualClock};
