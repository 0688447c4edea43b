//! The persistence plane: everything durable about worlds, built on the engine contract.
//!
//! - [`keyspace`]: one file per key family, with its key and value codecs and who writes it.
//! - [`protocol`]: one file per transaction protocol: a thin `run`, and a pure `plan` where it decides something.
//! - [`run()`]: the one retry loop, which decides what a failed commit means.
//! - [`blob`]: the seam to the content store, for protocols that put or need blobs.
//! - [`blobs`]: the content store itself, over engine and object store.
//! - [`segments`]: old records, moved out of the engine into objects.
//! - [`reachability`]: which objects are still referred to, and the sweep of the others.
//! - [`objects`]: the object store underneath.
//! - [`transfer`]: a universe as objects, so that it can move to another engine.
//! - [`values`]: what is stored under the keys, for layers that may know no key.
//! - [`journal`]: reading records, across segments and the hot tail.
//!
//! This crate must never know an async runtime, a wall clock, a source of randomness, or which engine
//! it stands on: clock, entropy, engine and blobs are parameters, so that the simulator runs the very
//! same code. It must never know what a program or a snapshot means; it asks a
//! [`ReadSnapshot`](snapshot::ReadSnapshot).

#[cfg(feature = "bench")]
pub mod bench;
pub mod blob;
pub mod blobs;
#[cfg(feature = "conformance")]
pub mod conformance;
mod environment;
mod error;
mod fence;
pub mod journal;
pub mod keyspace;
pub mod objects;
pub mod protocol;
pub mod reachability;
mod restore;
mod run;
pub mod segments;
pub mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transfer;
pub mod values;

pub use environment::{Clock, Entropy};
pub use error::{Damaged, DamagedObject, StoreError};
pub use fence::{Fence, Fenced};
pub use restore::{Restored, restore};
pub use run::{ATTEMPTS_MAX, Done, OnUnknown, Protocol, Refused, run, run_or_tell};
