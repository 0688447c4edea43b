//! The roles that run worlds, over the persistence plane and the kernel.
//!
//! - [`bundle`]: a world as one file that can be verified.
//! - [`world`]: one world in memory under one fence: restore, turn, snapshot.
//! - [`worker`]: many worlds on a few runners: leases, fairness, residents, drain.
//! - [`orchestrator`]: where worlds should run.
//! - [`sweeper`]: removes unreferenced objects.
//! - [`lifecycle`]: create, fork, pause, resume, archive, delete.
//! - [`delivery`]: how an item reaches its world.
//! - [`effects`]: which intents become effects, where these start, and the role that carries them out.
//! - [`timers`]: the role that fires timers.
//! - [`children`]: the role that dispatches children and runs them.
//! - [`manifests`]: which events a world accepts.
//! - [`control`]: the operations on worlds, for the server and embedders.
//! - [`watcher`]: looks at the holders of pools' leases, revokes and reclaims.
//! - [`tidying`]: removes the names of old items.
//! - [`shell`]: what every role runs in: boot guard, stop, counters; and the mailbox, for roles that have one.
//! - [`calls`]: callers that wait for replies.
//! - [`metrics`]: every metric, with its name and unit.
//! - [`trace`]: one trace from an input to the receipts of all that followed from it.
//! - [`testing`]: an executor with its own time, in which a crash drops tasks at an await.
//!
//! This crate must not depend on an async runtime, a wall clock, a socket, or a particular engine: all that comes
//! through a [`Plane`], so that the simulator runs the very same code.

pub mod bundle;
pub mod calls;
pub mod children;
pub mod control;
pub mod delivery;
pub mod effects;
mod error;
pub mod lifecycle;
pub mod manifests;
pub mod metrics;
mod objects;
pub mod orchestrator;
mod plane;
pub mod shell;
mod signal;
mod snapshots;
pub mod sweeper;
mod take_over;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tidying;
pub mod timers;
pub mod trace;
pub mod watcher;
pub mod worker;
pub mod world;
mod world_name;
mod yielding;

pub use delivery::{Delivery, LocalWorlds, Wake};
pub use error::RuntimeError;
pub use plane::{Plane, Services, Spawn, Task};
pub use snapshots::KernelSnapshots;
