//! A node: whole universes in one process, and the HTTP API on it.
//!
//! - [`node`]: engine, blobs, segments and the roles that run worlds, as one thing that starts, drains and stops.
//! - [`programs`]: the programs that a node can run, by name.
//! - [`api`]: the HTTP API, one file per noun; [`serve`]: sockets, TLS and their limits.
//! - [`bodies`]: what the bodies of requests may take of the memory.
//! - [`quotas`]: what one universe and one token may take.
//! - [`proof`]: what a verification proved.
//! - [`hardening`]: what a configuration leaves open; [`signs`]: how findings are told.
//! - [`transfer`]: universes that move from one engine to another.
//! - [`config`]: defaults, file, environment, flags.
//!
//! This crate must never know what a protocol writes: it speaks to worlds through the runtime's operations.

pub mod api;
pub mod bodies;
#[cfg(feature = "postgres")]
pub mod checkup;
pub mod config;
pub mod hardening;
pub mod node;
pub mod programs;
pub mod proof;
pub mod quotas;
pub mod serve;
pub mod signs;
pub mod transfer;
