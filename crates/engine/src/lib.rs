//! The ordered transactional key-value contract that everything durable in Mundi is a layer over,
//! engines that keep it, and a conformance suite that tells whether an engine does.
//!
//! Start with [`Engine`] and [`Transaction`]: their documentation is the contract. [`Memory`] is the
//! reference, [`Embedded`] is what users run on one machine, and `Postgres` what they run on many.
//!
//! This crate must never know what is stored in it: no world, no journal, no queue.

#[cfg(feature = "postgres")]
mod any;
pub mod conformance;
mod contract;
pub mod embedded;
mod error;
mod group;
pub mod memory;
mod overlay;
#[cfg(feature = "postgres")]
pub mod postgres;
mod recent;
mod watch;
mod write_set;

#[cfg(feature = "postgres")]
pub use any::{AnyEngine, AnyTransaction};
pub use contract::{Committed, Engine, Page, RangeRead, Transaction};
pub use embedded::Embedded;
pub use error::{CommitError, EngineError};
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;

/// The example in the README is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
