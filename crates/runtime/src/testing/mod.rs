//! A small world of its own for tests: an executor whose time moves only when nothing else can, nodes that crash at
//! an await, and a program that is told what to do. The simulator grows from here.

mod executor;
mod node_clock;
mod rig;
mod script;

pub use executor::{Executor, Node};
pub use node_clock::NodeClock;
pub use rig::{Rig, TestPlane, call, cell, control, message, script_event, taken};
pub use script::{MENDED_VERSION, MendedScript, Script, holding_manifests, manifest, mended_manifest, register};
