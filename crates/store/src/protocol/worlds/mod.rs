//! Worlds from creation to deletion.

pub(in crate::protocol) mod archive_world;
pub(in crate::protocol) mod create_world;
pub(in crate::protocol) mod delete_world;
pub(in crate::protocol) mod describe_world;
pub(in crate::protocol) mod existence;
pub(in crate::protocol) mod hold_world;
pub(in crate::protocol) mod import_world;
pub(in crate::protocol) mod inherit;
pub(in crate::protocol) mod list_worlds;
pub(in crate::protocol) mod name_world;
pub(in crate::protocol) mod read_lineage;
pub(in crate::protocol) mod read_logs;
pub(in crate::protocol) mod upgrade_waits;

pub use archive_world::ArchiveWorld;
pub use create_world::{CreateWorld, WorldCreated, create_world};
pub use delete_world::{CloseWorld, DeleteStep, DeleteWorld, delete_world};
pub use describe_world::{DescribeWorld, WorldDescription};
pub use existence::require_live;
pub(crate) use existence::{explain_missing, on_hold, require_runnable, require_world};
pub use hold_world::{HoldWorld, ReleaseHold};
pub use import_world::{ImportWorld, import_world};
pub use inherit::{Inherit, Inherited, inherit_all};
pub use list_worlds::{HeldBy, HeldLease, ListWorlds, WorldFilter, WorldSummary};
pub use name_world::NameWorld;
pub use read_lineage::{Branch, ReadLineage, WorldLineage};
pub use read_logs::{LogTail, ReadLogs};
pub use upgrade_waits::UpgradeWaits;
