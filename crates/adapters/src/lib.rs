//! The adapters that come with Mundi: implementations of [`Adapter`](mundi_runtime::effects::Adapter) and nothing else.
//!
//! - [`blob`], [`fabric`], [`world_call`], [`spawn`], [`fork`]: effects inside the store. [`http`], [`llm`], [`process`]: effects outside of it.
//! - [`child_cancel`] cancels children of a world; [`child_agent`] and [`child_process`] run those of kinds `agent` and `process`; [`child_world`] makes the worlds of those of kind
//!   `world`, which end by [`child_done`].
//! - [`Params`]: the parameters of an effect; [`reach`]: the way to other worlds; [`room`]: whether a universe may have more.
//!
//! The worker that claims effects and calls these is [`AdapterWorker`](mundi_runtime::effects::AdapterWorker).
//!
//! This crate must never claim an effect, run a program, nor hold a lease: all it gives to a world goes through the inbox.
//! Secrets are given to an adapter when it is made; they never reach a receipt.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod blob;
#[cfg(feature = "http")]
pub mod child_agent;
pub mod child_cancel;
pub mod child_done;
#[cfg(feature = "process")]
pub mod child_process;
pub mod child_world;
pub mod fabric;
pub mod fork;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod llm;
mod params;
#[cfg(feature = "process")]
pub mod process;
mod program_names;
pub mod reach;
pub mod room;
pub mod spawn;
pub mod world_call;

pub use params::Params;
