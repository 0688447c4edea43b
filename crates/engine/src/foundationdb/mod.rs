//! The engine on FoundationDB: one cluster, any number of processes, commits that scale with its machines.
//!
//! ```text
//! transaction ──reads without conflict ranges──▶ the client's transaction, at one read version
//!      │  own writes and what was read: overlay.rs
//!      └──commit──▶ plan ──conflict ranges, mutations──▶ commit, versionstamp
//! ```
//!
//! The contract has the shape of this database, so there is little in between: `docs/internals/adr/0010-foundationdb-engine.md`. What decides
//! (keys, error codes, commit plans, the guard of versions, the clock, the table of watches) does no I/O and is tested without a cluster. What
//! talks to the client library is compiled with the feature `foundationdb` alone, because it links that library.

#[cfg(feature = "foundationdb")]
mod client_error;
#[cfg(any(test, feature = "foundationdb"))]
mod codes;
#[cfg(any(test, feature = "foundationdb"))]
mod commit_plan;
#[cfg(feature = "foundationdb")]
mod diagnose;
#[cfg(feature = "foundationdb")]
mod engine;
#[cfg(any(test, feature = "foundationdb"))]
mod keys;
#[cfg(feature = "foundationdb")]
mod network;
#[cfg(any(test, feature = "foundationdb"))]
mod shared_clock;
#[cfg(all(feature = "foundationdb", feature = "testing"))]
pub mod testing;
#[cfg(feature = "foundationdb")]
mod transaction;
mod url;
#[cfg(any(test, feature = "foundationdb"))]
mod version_guard;
#[cfg(any(test, feature = "foundationdb"))]
mod watch_table;
#[cfg(feature = "foundationdb")]
mod watcher;

#[cfg(feature = "foundationdb")]
pub use diagnose::{Diagnosis, diagnose};
#[cfg(feature = "foundationdb")]
pub use engine::{FoundationDb, Options};
#[cfg(feature = "foundationdb")]
pub use transaction::FoundationDbTransaction;
pub use url::{Cluster, SCHEME, Target, parse};

/// How often a process reads the shared clock and publishes its own time.
#[cfg(feature = "foundationdb")]
pub const PUBLISH_EVERY: std::time::Duration = std::time::Duration::from_secs(shared_clock::PUBLISH_EVERY_S as u64);
