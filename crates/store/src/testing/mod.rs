//! Stand-ins for the outside, for tests of this crate and of those above it.

mod blobs;
mod environment;
mod fixture;
mod probe;
mod snapshots;

pub use blobs::HeapBlobs;
pub use environment::{CountingEntropy, ManualClock};
pub use fixture::{Fixture, note_body};
pub use probe::{Counts, Probe, ProbeTransaction, Trouble};
pub use snapshots::PlainSnapshots;
