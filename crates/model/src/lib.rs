//! The words that every part of Mundi speaks: ids, canonical encodings, schedules, limits, error codes.
//!
//! This crate must never know an engine, a clock, a source of randomness, a file or a socket, and
//! nothing in it is asynchronous. Ids are made elsewhere, from injected entropy; here they only get
//! their type and their text form.

pub mod cbor;
pub mod error;
mod hash;
mod ids;
pub mod json;
pub mod limits;
#[doc(hidden)]
pub mod mutants;
pub mod record;
pub mod schedule;
mod text;
mod value;
mod world_name;

pub use error::{Code, Coded, Kind};
pub use hash::{Hash, Hasher, IntentHash};
pub use ids::{CallId, Epoch, Height, InboxSeq, Stamp, UniverseId, WorkerId, WorldId};
pub use text::{ParseIdError, hex, parse_hex};
pub use value::Value;
pub use world_name::{WorldAddress, WorldName};
