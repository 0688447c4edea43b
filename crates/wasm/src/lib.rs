//! WASM components as programs: the only crate that depends on a WASM engine.
//!
//! - [`engine`]: what runs components, with nothing that could make two runs differ.
//! - [`inspect`]: what is refused before anything is compiled.
//! - [`compile`]: compiling in a process of its own, within bounds; `queue`: what waits for it, fair by universe.
//! - [`cache`]: compiled code on this machine's disk; `functions`: functions of it, for components that have the same ones.
//! - [`components`]: the kernel's loader: components are compiled in the background and kept in memory.
//! - [`program`]: a component as a program; a fresh instance for each step.
//! - `scheduler`: which steps run now, fair by universe and by world; `checks`: which long checks against schemas.
//! - [`build`]: from a folder with sources to a component.
//!
//! The contract is `wit/program.wit`. This crate must never know a world's journal, an engine of transactions or an
//! asynchronous runtime; it decides nothing that is not in the manifest or in the component.

pub mod build;
pub mod cache;
mod checks;
pub mod compile;
pub mod components;
mod contract;
pub mod decoders;
pub mod engine;
mod functions;
pub mod inspect;
mod lend;
pub mod offer;
pub mod program;
mod queue;
mod scheduler;
mod surface;
mod weight;

pub use compile::{CompileLimits, CompileProcess, Compiler, compile_stdin};
pub use components::{Components, ComponentsConfig};
pub use engine::ENGINE;
