//! The names of worlds, for log lines about rare events. A turn does not know its world's name, and does not read it.

use crate::Plane;
use mundi_model::{UniverseId, WorldId};
use mundi_store::protocol::ReadNames;

/// `None` if it has no name, or it cannot be read: the line has its id.
pub(crate) async fn world_name<P: Plane>(plane: &P, universe: UniverseId, world: WorldId) -> Option<String> {
    let read = ReadNames { universe, worlds: [world].into() };
    plane.run(&read).await.ok()?.output.remove(&world)
}
