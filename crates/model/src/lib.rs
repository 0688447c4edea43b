//! Types that every crate of Mundi uses: ids, canonical encodings, schedules, limits, error codes.
//!
//! This crate must never know an engine, a clock, a source of randomness, a file or a socket, and
//! nothing in it is asynchronous. Ids are made elsewhere, from injected entropy; here they only get
//! their type and their text form.

pub mod answers;
pub mod cbor;
pub mod child;
pub mod error;
mod hash;
mod hints;
mod ids;
pub mod json;
mod labels;
pub mod limits;
mod moment;
#[doc(hidden)]
pub mod mutants;
pub mod pool;
mod program_ref;
pub mod record;
pub mod schedule;
mod text;
mod value;
pub mod watch;
mod world_name;

pub use error::{Code, Coded, Kind};
pub use hash::{Hash, Hasher, IntentHash};
pub use ids::{CallId, Epoch, Height, InboxSeq, Stamp, UniverseId, WorkerId, WorldId};
pub use labels::{LabelChange, LabelError, Labels, check_label_key};
pub use moment::Moment;
pub use program_ref::{ProgramAddress, ProgramNameInvalid, ProgramRef};
pub use text::{ParseIdError, hex, parse_hex, parse_hex_bytes};
pub use value::Value;
pub use world_name::{WorldAddress, WorldName};

/// The behaviour of each fork policy for open effects, new effects, messages and timers: a table for people.
pub const FORK_POLICIES: &str = include_str!("fork_policies.md");
