//! Fakes for tests of this crate and of those above it.

mod blobs;
mod contents;
mod crash;
mod environment;
mod faulty_objects;
mod fixture;
mod probe;
mod protocols;
mod queues;
mod rng;
mod snapshots;
mod workload;
mod world;

pub use blobs::HeapBlobs;
pub use contents::{engine_contents, object_contents};
pub use crash::{CrashSwitch, CrashingEngine, CrashingTransaction, Side};
pub use environment::{CountingEntropy, ManualClock};
pub use faulty_objects::{Fault, FaultyObjects, Rates};
pub use fixture::{Fixture, event, named_event, note_body, world_id};
pub use probe::{Counts, Probe, ProbeTransaction, Trouble, others_first};
pub use protocols::{AppendBatch, DrainInbox, Drained, PinBlob, UnpinBlob};
pub use queues::{ask, ask_in_process, ask_leased, held_effect, receipts, set_timers, spawn_children, unheld};
pub use rng::Rng;
pub use snapshots::PlainSnapshots;
pub use workload::Workload;
pub use world::HandmadeWorld;
