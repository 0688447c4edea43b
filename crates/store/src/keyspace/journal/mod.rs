//! The records of a world, their snapshots and segments.

pub mod baseline;
pub mod journal_entry;
pub mod journal_head;
pub mod segment;
pub mod segment_checkpoint;
pub mod snapshot;
pub mod snapshot_due;
pub mod snapshot_due_at;
