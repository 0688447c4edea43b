//! Delete a world.

use crate::{Plane, RuntimeError};
use mundi_model::{Code, Coded, UniverseId, WorkerId, WorldId};
use mundi_store::protocol::{AcquireLease, AcquireToDelete, ReleaseLease, delete_world};

/// Long enough for a deletion in bounded chunks; whoever dies in the middle of it is succeeded then.
const TTL_NS: u64 = 60_000_000_000;

/// Deletes a world that nobody runs, under a lease of its own, or finishes that. Deleting what is deleted changes nothing.
pub async fn delete<P: Plane>(
    plane: &P,
    universe: UniverseId,
    world: WorldId,
    worker: WorkerId,
) -> Result<(), RuntimeError> {
    let acquire = AcquireLease { universe, world, worker, now_ns: plane.now_ns(), ttl_ns: TTL_NS };
    let fence = match plane.run(&AcquireToDelete(acquire)).await {
        Err(error) if error.code() == Code::WorldDeleted => return Ok(()),
        acquired => acquired?.output,
    };
    let deleted = delete_world(plane.engine(), &**plane.clock(), fence).await;
    if deleted.is_err() {
        // Whoever was refused gives the world back at once; if that fails too, the lease runs out.
        let _released = plane.run(&ReleaseLease { fence }).await;
    }
    Ok(deleted?)
}
