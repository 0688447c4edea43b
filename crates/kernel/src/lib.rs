//! Deterministic worlds: a step, replay, snapshot, cells, native programs.
//!
//! This crate must never know an engine, a clock, a source of randomness, a file, a socket or an
//! asynchronous runtime. A step is a function, and everything that enters it is in the record. What is
//! not at hand is reported by its hash, so that a host can fetch it and run the same turn again.
//!
//! A host calls [`World::create`] or [`World::restore`], then [`World::turn`] for each batch of inbox
//! items, commits the output in one transaction, and keeps the turn.

mod admit;
pub mod cells;
pub mod fork;
mod host;
pub mod intents;
pub mod manifest;
mod meter;
pub mod objects;
pub mod program;
pub mod registry;
pub mod rehearse;
pub mod replay;
pub mod snapshot;
mod state;
mod step;
pub mod turn;
mod undo;
mod world;

pub use admit::Upgrade;
pub use meter::LogLine;
pub use objects::{LoadError, MemoryObjects, Objects};
pub use registry::Registry;
pub use state::Recording;
pub use world::{Note, QueryError, World};
