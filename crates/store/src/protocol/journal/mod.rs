//! The records of a world, their snapshots and segments.

pub(in crate::protocol) mod commit_cursor;
pub(in crate::protocol) mod commit_snapshot;
pub(in crate::protocol) mod commit_turn;
pub(in crate::protocol) mod list_snapshots;
pub(in crate::protocol) mod read_turn;
pub(in crate::protocol) mod segment_export;
pub(in crate::protocol) mod snapshot_due;

pub use commit_cursor::CommitCursor;
pub use commit_snapshot::{CommitSnapshot, SnapshotCommitted, commit_snapshot};
pub use commit_turn::{AnsweredEffect, CommitTurn, Consumed, InProcess, TurnCommitted};
pub use list_snapshots::ListSnapshots;
pub use read_turn::{ReadTurn, TurnInput, TurnItem};
pub use segment_export::{
    BeginExport, CountSegments, DeleteExported, ExportPolicy, ExportState, IndexSegment, NextExport, PlanExport,
    ReadExport,
};
pub use snapshot_due::{NoteSnapshotDue, WakeDueSnapshots};
