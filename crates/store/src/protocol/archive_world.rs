//! Archive a world, or take it out of the archive.
//!
//! Guarantees: an archived world takes nothing in and nobody acquires it; who held it holds it no more, and nobody is told to
//! look after it. All that it is stays. What waits in its inbox is taken when it comes back. Archiving twice is archiving once.
//! Unknown commit: run again; it is idempotent.

use super::{WorldError, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        lease::{self, Lease},
        lease_term,
        ready::{self, ReadyHint},
        ready_notify,
        world_meta::{self, WorldMeta, WorldState},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct ArchiveWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    pub archived: bool,
    pub now_ns: u64,
}

impl Protocol for ArchiveWorld {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, world, archived, now_ns } = *self;
        let meta = require_world(tx, universe, world).await?;
        let state = match meta.state {
            WorldState::Deleting | WorldState::Deleted => return Err(WorldError::Deleted(world).into()),
            WorldState::Live | WorldState::Archived if archived => WorldState::Archived,
            WorldState::Live | WorldState::Archived => WorldState::Live,
        };
        if meta.state == state {
            return Ok(());
        }
        let priority = meta.ready_priority();
        if archived {
            release(tx, universe, world).await?;
            ready::remove(tx, universe, world, priority)?;
        } else {
            ready::write(tx, universe, world, priority, &ReadyHint { at_ns: now_ns })?;
            ready_notify::bump(tx, universe, ready::shard(world))?;
        }
        world_meta::write(tx, universe, world, &WorldMeta { state, ..meta })
    }
}

/// Turns ask only whether their lease is held: whoever has it must lose it with this.
async fn release<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<(), StoreError> {
    if let Some(held @ Lease { holder: Some(_), .. }) = lease::read(tx, universe, world).await? {
        lease::write(tx, universe, world, &Lease { holder: None, ..held })?;
        tx.delete(lease_term::key(universe, world).as_bytes())?;
    }
    Ok(())
}
