//! The roles that run worlds, over the persistence plane and the kernel.
//!
//! - [`bundle`]: a world as one file that proves itself.
//! - [`host`]: one world in memory under one fence: restore, turn, snapshot.
//! - [`worker`]: many worlds on a few runners: leases, fairness, residents, drain.
//! - [`orchestrator`]: where worlds should run.
//! - [`sweeper`]: gets back the space of what nothing refers to.
//! - [`lifecycle`]: create, fork, pause, resume, archive, delete.
//! - [`delivery`]: how an item reaches its world; [`effects`]: which intents become effects, and where these start.
//! - [`manifests`]: what a world takes in, for its senders; [`policy`]: what an effect was allowed by.
//! - [`ops`]: the internal control surface.
//! - [`shell`]: what every role runs in: boot guard, mailbox, retries, counters, stop.
//! - [`calls`]: callers that wait for replies.
//! - [`metrics`]: every metric, with its name and unit.
//! - [`trace`]: one trace from an input to the receipts of all that followed from it.
//! - [`testing`]: an executor with its own time, in which a crash drops tasks at an await.
//!
//! This crate must never know an async runtime, a wall clock, a socket, or which engine it stands on: all that comes
//! through a [`Plane`], so that the simulator runs the very same code.

pub mod attempts;
pub mod bundle;
pub mod calls;
pub mod delivery;
pub mod effects;
mod error;
pub mod host;
pub mod lifecycle;
pub mod manifests;
pub mod metrics;
mod objects;
pub mod ops;
pub mod orchestrator;
mod plane;
pub mod policy;
mod recording;
pub mod shell;
mod signal;
mod snapshots;
pub mod sweeper;
mod take_over;
mod terms;
pub mod testing;
pub mod trace;
pub mod worker;

pub use delivery::{Delivery, LocalWorlds, Wake};
pub use error::RuntimeError;
pub use plane::{Plane, Services, Spawn, Task};
pub use snapshots::KernelSnapshots;
