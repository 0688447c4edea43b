//! A node: whole universes in one process, and the HTTP API on it.
//!
//! - [`node`]: engine, blobs, segments and the roles that run worlds, that starts, drains and stops as a whole.
//! - [`programs`]: the programs that a node can run, by name.
//! - [`api`]: the HTTP API, one file per noun; [`serve`]: sockets, TLS and their limits.
//! - [`bodies`]: what the bodies of requests may take of the memory.
//! - [`quotas`]: what one universe and one token may take.
//! - [`proof`]: what a verification proved.
//! - [`hardening`]: checks of a configuration against the security checklist; [`signs`]: findings.
//! - [`transfer`]: universes that move from one engine to another.
//! - [`config`]: defaults, file, environment, flags.
//!
//! This crate must not depend on what a protocol writes: it uses worlds through the runtime's operations.
//!
//! Nothing here is generic over the engine: a node runs on `AnyEngine`. So store and runtime are compiled once for it, in this crate, and not again in
//! each crate and test that opens a node.

pub mod api;
pub mod bodies;
#[cfg(feature = "postgres")]
pub mod checkup;
pub mod config;
pub mod hardening;
pub mod mcp;
pub mod node;
pub mod programs;
pub mod proof;
pub mod quotas;
pub mod serve;
pub mod signs;
pub mod transfer;
