//! What carries out effects: the workers that serve the queues, and the adapters that come with Mundi.
//!
//! - [`Adapter`]: the one trait; an adapter is one file that implements it.
//! - [`worker`]: the loops that claim effects and fire timers. They name no async runtime: clock, sleep, entropy and
//!   engine are parameters, so that the simulator runs the very same code.
//! - [`blob`], [`fabric`], [`spawn`], [`fork`]: effects inside the store. [`http`], [`llm`], [`process`]: effects outside of it.
//!
//! - [`signature`]: receipts that their adapter signs.
//!
//! This crate must never run a program, nor hold a lease: all it gives to a world goes through the inbox.
//! Secrets are given to an adapter when it is made; they never reach a receipt.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod adapter;
pub mod blob;
pub mod fabric;
pub mod fork;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod llm;
mod params;
#[cfg(feature = "process")]
pub mod process;
pub mod room;
pub mod signature;
pub mod spawn;
pub mod worker;

pub use adapter::{Adapter, Call, denied, failed, too_large};
pub use params::Params;
