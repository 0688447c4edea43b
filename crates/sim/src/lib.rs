//! A deterministic simulator: the production code of `store`, `runtime` and the workers of `adapters`, on one thread, under a
//! seed that decides the order of tasks and the faults.
//!
//! - [`Simulation`]: your programs in a simulated universe, inside `cargo test`.
//! - [`run_seed`]: one seed of our own traffic under faults, then healing, then every promise checked.
//! - [`cli`]: the command, for thousands of seeds.
//!
//! How a run goes: a driver (`driver`) starts nodes (`cluster`), each with its own clock and its own way to the
//! engine (`engine`, `link`); clients and the outside world keep notes (`client`, `outside`, `notes`); the engine keeps
//! the log of all commits (`log`). After the faults everything must come to rest (`quiet`). Then the log is retold world
//! by world (`history`), and the checkers (`checkers`, one promise each) read it.
//!
//! This crate must never know a server, a socket or an async runtime, and never has a copy of what it tests.

mod checkers;
mod children;
pub mod cli;
mod client;
mod cluster;
mod coverage;
pub mod decoders;
mod engine;
mod exporter;
mod fake_service;
mod fault_driver;
mod faults;
pub mod forgery;
mod functions;
pub mod gate_fixtures;
mod history;
mod leased_effects;
mod link;
mod liveness;
mod log;
mod notes;
mod pools;
mod protocol;
mod report;
mod run;
mod run_state;
mod simulation;
mod trace;

pub use checkers::names as checkers;
pub use children::{ChildTally, run_child_seed};
pub use coverage::Coverage;
pub use faults::{Fault, Faults};
pub use functions::{FunctionTally, run_function_seed};
pub use pools::{LeasedTally, PoolTally, run_leased_effects_seed, run_pool_seed, run_watched_pool_seed};
pub use protocol::Protocol;
pub use report::Summary;
pub use run::{Failure, Outcome, run_exactly, run_seed};
pub use run_state::Tally;
pub use simulation::{Simulated, Simulation};
