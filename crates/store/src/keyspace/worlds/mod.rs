//! Worlds from creation to deletion.

pub mod forked_world;
pub mod last_active;
pub mod manifest_at;
pub mod named_world;
pub mod open_call;
pub mod reply;
pub mod world_change;
pub mod world_failure;
pub mod world_index;
pub mod world_log;
pub mod world_meta;
