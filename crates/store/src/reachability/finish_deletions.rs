//! Worlds whose deletion stopped halfway, or was left to the sweep because it walked.

use super::{pace::Pace, worlds::Worlds};
use crate::{
    StoreError,
    blobs::Cas,
    keyspace::world_meta::WorldState,
    protocol::{DELETE_CHUNK_KEYS, DeleteStep, Purpose, TakeOverLease, TakenOver, WorldError, delete_step},
    run,
};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId, WorldId};

/// Long enough for a deletion in bounded chunks. A deletion whose pace takes longer stays safe: its epoch decides.
const TTL_NS: u64 = 60_000_000_000;

/// Removes what is left of worlds that are being deleted; gives how many are gone. One that somebody else is at stays.
pub(super) async fn finish_deleted_worlds<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    worker: WorkerId,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let mut finished = 0;
    let mut worlds = Worlds::above(&cas.engine, universe, None, pace);
    while let Some((world, meta)) = worlds.next_of_any_state().await? {
        if meta.state == WorldState::Deleting && finish(cas, universe, world, worker, pace).await? {
            finished += 1;
        }
    }
    Ok(finished)
}

/// How many worlds are being deleted. Reads only.
pub(super) async fn count_half_deleted<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let mut count = 0;
    let mut worlds = Worlds::above(&cas.engine, universe, None, pace);
    while let Some((_, meta)) = worlds.next_of_any_state().await? {
        count += usize::from(meta.state == WorldState::Deleting);
    }
    Ok(count)
}

/// Whether the world is gone with this.
async fn finish<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    world: WorldId,
    worker: WorkerId,
    pace: &Pace,
) -> Result<bool, StoreError> {
    let (engine, clock) = (&cas.engine, &*cas.clock);
    let take_over = TakeOverLease {
        universe,
        world,
        by: worker,
        now_ns: clock.now_ns(),
        ttl_ns: TTL_NS,
        request_ttl_ns: 0,
        purpose: Purpose::Delete,
    };
    let fence = match run(engine, clock, &take_over).await.map(|done| done.output) {
        Ok(TakenOver::Now(fence)) => fence,
        Ok(TakenOver::Requested(_) | TakenOver::Waits(_)) | Err(StoreError::World(WorldError::Deleted(_))) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    loop {
        match delete_step(engine, clock, fence).await {
            Ok(DeleteStep::More) => pace.after_keys(DELETE_CHUNK_KEYS).await,
            Ok(DeleteStep::Done) => return Ok(true),
            // Another sweep began, or an operator's deletion took it over meanwhile.
            Ok(DeleteStep::Deferred) | Err(StoreError::Fenced(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
