//! Whether a world exists, and which error says that it does not.

use crate::protocol::WorldError;
use crate::{
    StoreError,
    keyspace::{
        universe_meta,
        world_meta::{self, Hold, WorldMeta, WorldState},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

/// A world that exists and takes things in. The commit depends on it: a deletion that comes first conflicts.
pub async fn require_live<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<WorldMeta, StoreError> {
    let meta = require_world(tx, universe, world).await?;
    match meta.state {
        WorldState::Live => Ok(meta),
        WorldState::Archived => Err(WorldError::Archived(world).into()),
        WorldState::Deleting | WorldState::Deleted => Err(WorldError::Deleted(world).into()),
    }
}

/// A world that workers may run.
pub(crate) async fn require_runnable<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<WorldMeta, StoreError> {
    let meta = require_live(tx, universe, world).await?;
    match &meta.hold {
        None => Ok(meta),
        Some(hold) => Err(on_hold(world, hold).into()),
    }
}

pub(crate) fn on_hold(world: WorldId, hold: &Hold) -> WorldError {
    WorldError::OnHold { world, code: hold.code.clone(), height: hold.height }
}

/// A world that exists, or existed.
pub(crate) async fn require_world<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<WorldMeta, StoreError> {
    match world_meta::read(tx, universe, world).await? {
        Some(meta) => Ok(meta),
        None => Err(missing(tx, universe, world).await?),
    }
}

/// Why a world has not what every living world has.
pub(crate) async fn explain_missing<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<StoreError, StoreError> {
    match world_meta::read(tx, universe, world).await? {
        Some(_) => Ok(WorldError::Deleted(world).into()),
        None => missing(tx, universe, world).await,
    }
}

async fn missing<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<StoreError, StoreError> {
    Ok(match universe_meta::read(tx, universe).await? {
        Some(_) => WorldError::NotFound { universe, world }.into(),
        None => WorldError::UniverseNotFound(universe).into(),
    })
}
