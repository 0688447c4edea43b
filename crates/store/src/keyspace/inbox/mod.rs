//! What waits for a world, and the names of what was sent.

pub mod dedupe_bucket;
pub mod inbox_compaction;
pub mod inbox_dedupe;
pub mod inbox_depth;
pub mod inbox_entry;
pub mod notify;
