//! World bundles: one file with a world and everything that verifies it.
//!
//! ```text
//! magic | header | objects ... | snapshots | records ... | end
//! ```
//!
//! Each frame is compressed and carries a checksum over itself and the checksum of the frame before it, so that nothing
//! can be changed, dropped, added or moved unnoticed. Objects come after those that they refer to, and records after all
//! objects: a file can be written and read from the front, in little memory. The same world gives the same bytes.
//!
//! - [`export()`] writes one of a world, while it runs.
//! - [`Bundle::open`] reads one and checks every frame, every hash and every link of the chain.
//! - [`Bundle::verify`] replays it from genesis and from its baseline, and needs no engine.
//! - [`Bundle::rehearse`] runs its history under another program, and needs none, either.
//! - [`import()`] brings it into a universe.

mod compare;
mod error;
mod export;
mod format;
mod frames;
mod import;
mod open;
mod verify;

pub use compare::BundleCompare;
pub use error::BundleError;
pub use export::{ExportedBundle, FrameSink, export};
pub use format::{Ancestor, Header};
pub use import::{ImportRequest, Imported, import};
pub use open::Bundle;
pub use verify::Proof;
