//! Deterministic worlds: a step, replay, snapshot, cells, native programs.
//!
//! This crate must not depend on an engine, a clock, a source of randomness, a file, a socket or an
//! asynchronous runtime. A step is a function, and everything that enters it is in the record. What is
//! not at hand is reported by its hash, so that a host can fetch it and run the same turn again.
//!
//! A host makes or restores a world, takes a turn for each batch of inbox items, commits the turn's output
//! in one transaction, and keeps the turn:
//!
//! ```
//! use mundi_kernel::{MemoryObjects, Registry, World, manifest::{Manifest, Schema}, replay::Replay};
//! use mundi_kernel::program::{Event, Failure, Host, Program};
//! use mundi_kernel::turn::{Arrival, Arrived, TurnBudget};
//! use mundi_model::{InboxSeq, Stamp, UniverseId, WorldId};
//! use mundi_model::record::{Genesis, InboxItem, Input, Origin, Payload};
//!
//! struct Counter;
//! impl Program for Counter {
//!     fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
//!         let count = host.get("count")?.map_or(0, |bytes| bytes[0]) + 1;
//!         host.put("count", &[count])?;
//!         Ok(host.reply(event.seq, &[count])?)
//!     }
//! }
//!
//! let (mut objects, mut registry) = (MemoryObjects::new(), Registry::new());
//! let mut manifest = Manifest::new(registry.register_native("counter", 1, Counter));
//! manifest.events.insert("add".into(), Schema::anything());
//! let manifest = objects.put(manifest.to_bytes());
//! let registry = std::sync::Arc::new(registry);
//!
//! let ids = (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([2; 16]));
//! let genesis = Genesis { universe: ids.0, world: ids.1, manifest, now_ns: 0 };
//! let (mut world, first) = World::create(&objects, registry.clone(), genesis)?;
//!
//! let input = Input::Event { schema: "add".into(), value: Payload::Inline(vec![0xf6]), key: None };
//! let origin = Origin { wants_reply: true, ..Origin::new(0) };
//! let item = Arrived::Item(std::sync::Arc::new(InboxItem { input, origin }));
//! let arrival = Arrival { seq: InboxSeq::new(Stamp::new(1, 0), 0), item, now_ns: 1, entropy: [0; 16] };
//! let turn = world.turn(&objects, &[arrival], TurnBudget::default())?;
//! // Here the host commits `turn.output()`: store its objects, then one fenced transaction.
//! let output = turn.keep();
//! assert_eq!((output.records.len(), output.replies.len()), (3, 1));
//!
//! let mut replay = Replay::from_genesis(&objects, registry, &first)?;
//! replay.run(&objects, &output.records, None)?;
//! assert_eq!(replay.finish()?.digest(), world.digest());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admit;
pub mod cells;
pub mod children;
pub mod fork;
mod host;
pub mod intents;
pub mod lease_kernel;
pub mod loader;
pub mod manifest;
mod meter;
pub mod objects;
pub mod program;
pub mod registry;
pub mod rehearse;
pub mod replay;
mod schema;
pub mod snapshot;
mod state;
mod step;
pub mod turn;
mod undo;
pub mod verify;
mod world;

pub use admit::{Repair, SPAWN_CHILD, Upgrade};
pub use meter::LogLine;
pub use objects::{LoadError, MemoryObjects, Objects};
pub use registry::Registry;
pub use state::{Confined, HeldAt, Recording};
pub use world::{Note, QueryError, World};
