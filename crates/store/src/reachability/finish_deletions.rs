//! Worlds whose deletion stopped halfway, or was left to the sweep because it walked.

use super::roots::next_of_any_state;
use crate::{
    StoreError,
    blobs::Cas,
    keyspace::world_meta::WorldState,
    protocol::{Purpose, TakeOverLease, TakenOver, WorldError, delete_world},
    run,
};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId};

/// Long enough for a deletion in bounded chunks.
const TTL_NS: u64 = 60_000_000_000;

/// Removes what is left of worlds that are being deleted; gives how many are gone. One that somebody else is at stays.
pub(super) async fn finish_deleted_worlds<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    worker: WorkerId,
) -> Result<usize, StoreError> {
    let (engine, clock) = (&cas.engine, &*cas.clock);
    let (mut finished, mut after) = (0, None);
    while let Some((world, meta)) = next_of_any_state(engine, universe, after).await? {
        after = Some(world);
        if meta.state != WorldState::Deleting {
            continue;
        }
        let take_over = TakeOverLease {
            universe,
            world,
            by: worker,
            now_ns: clock.now_ns(),
            ttl_ns: TTL_NS,
            request_ttl_ns: 0,
            purpose: Purpose::Delete,
        };
        match run(engine, clock, &take_over).await.map(|done| done.output) {
            Ok(TakenOver::Now(fence)) => {
                delete_world(engine, clock, fence).await?;
                finished += 1;
            }
            Ok(TakenOver::Requested(_) | TakenOver::Waits(_)) | Err(StoreError::World(WorldError::Deleted(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(finished)
}
