//! The transaction protocols, one file each. The header of each says what it guarantees and what happens
//! when a commit's fate is unknown.

mod acquire_lease;
mod append_batch;
mod assign_world;
pub(crate) mod cas_put;
pub(crate) mod cas_sweep;
mod commit_cursor;
mod commit_snapshot;
mod commit_turn;
mod compact_inbox;
mod create_universe;
mod create_world;
mod delete_world;
mod drain_inbox;
mod enqueue;
mod error;
mod existence;
mod expire_dedupe;
mod pin_blob;
mod read_turn;
mod release_lease;
mod renew_leases;
mod segment_export;
mod settle_world;

pub use acquire_lease::AcquireLease;
pub use append_batch::AppendBatch;
pub use assign_world::AssignWorld;
pub use commit_cursor::CommitCursor;
pub use commit_snapshot::{CommitSnapshot, SnapshotCommitted, commit_snapshot};
pub use commit_turn::{CommitTurn, Consumed, TurnCommitted};
pub use compact_inbox::{CompactInbox, Compacted, compact_inbox};
pub use create_universe::CreateUniverse;
pub use create_world::{CreateWorld, WorldCreated, create_world};
pub use delete_world::{DeleteWorld, delete_world};
pub use drain_inbox::{DrainInbox, Drained};
pub use enqueue::{Enqueue, Enqueued, NewItem, enqueue};
pub use error::{InboxError, LeaseError, WorldError};
pub use existence::require_live;
pub(crate) use existence::{explain_missing, require_world};
pub use expire_dedupe::{ExpireDedupe, expire_dedupe};
pub use pin_blob::{PinBlob, UnpinBlob};
pub use read_turn::{ReadTurn, TurnInput, TurnItem};
pub use release_lease::ReleaseLease;
pub use renew_leases::{RenewLeases, Renewed};
pub use segment_export::{BeginExport, DeleteExported, ExportPolicy, IndexSegment, NextExport, PlanExport};
pub use settle_world::{SettleWorld, Settled};
