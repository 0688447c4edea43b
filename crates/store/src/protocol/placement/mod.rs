//! Where worlds should run, and which have work.

pub(in crate::protocol) mod assign_world;
pub(in crate::protocol) mod forget_assignment;
pub(in crate::protocol) mod heartbeat;
pub(in crate::protocol) mod list_assigned_workers;
pub(in crate::protocol) mod list_worker_worlds;
pub(in crate::protocol) mod list_workers;
pub(in crate::protocol) mod place_world;
pub(in crate::protocol) mod read_placements;
pub(in crate::protocol) mod read_ready;

pub use assign_world::AssignWorld;
pub use forget_assignment::ForgetAssignment;
pub use heartbeat::Heartbeat;
pub use list_assigned_workers::ListAssignedWorkers;
pub use list_worker_worlds::ListWorkerWorlds;
pub use list_workers::ListWorkers;
pub use place_world::{Over, PlaceWorld, Placed};
pub use read_placements::{Placement, ReadPlacements};
pub use read_ready::{IsReady, ReadReady, ReadReadyCounters, ReadyPage};
