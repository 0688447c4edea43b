//! The inbox of a world, and the names of the items that were sent to it.

pub mod dedupe_bucket;
pub mod inbox_compaction;
pub mod inbox_dedupe;
pub mod inbox_depth;
pub mod inbox_entry;
pub mod notify;
