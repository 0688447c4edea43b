//! A test environment: an executor whose time moves only when no task can run, nodes that crash at
//! an await, and a program whose events script it. The simulator is built on it.

mod executor;
mod node_clock;
mod rig;
mod script;

pub use executor::{Executor, Node};
pub use node_clock::NodeClock;
pub use rig::{Rig, TestPlane, call, cell, control, message, script_event, taken};
pub use script::{MENDED_VERSION, MendedScript, Script, holding_manifests, manifest, mended_manifest, register};
