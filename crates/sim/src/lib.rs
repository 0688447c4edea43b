//! A deterministic simulator: the very code of `store`, `runtime` and the workers of `adapters`, on one thread, under a
//! seed that decides the order of everything and what goes wrong.

mod archivist;
mod checkers;
pub mod cli;
mod client;
mod cluster;
mod coverage;
mod director;
mod engine;
mod faults;
mod link;
mod log;
mod notes;
mod outside;
mod protocol;
mod quiet;
mod report;
mod run;
mod stage;
mod story;
mod trace;

pub use checkers::names as checkers;
pub use coverage::Coverage;
pub use faults::{Fault, Faults};
pub use protocol::Protocol;
pub use report::Summary;
pub use run::{Failure, Outcome, run_exactly, run_seed};
pub use stage::Tally;
