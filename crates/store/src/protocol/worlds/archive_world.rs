//! Archive a world, or take it out of the archive.
//!
//! Guarantees: an archived world takes nothing in and nobody acquires it; who held it holds it no more, and nobody is told to
//! look after it. All that it is stays. What waits in its inbox is taken when it comes back. Archiving twice is archiving once.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::{WorldError, release_lease::clear_holder, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        child_work,
        lease::{self, Lease},
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
            // Turns ask only whether their lease is held: its holder must lose it with this.
            if let Some(Lease { epoch, holder: Some(_), .. }) = lease::read(tx, universe, world).await? {
                clear_holder(tx, universe, world, epoch)?;
            }
            ready::remove(tx, universe, world, priority)?;
        } else if meta.hold.is_none() {
            ready::write(tx, universe, world, priority, &ReadyHint { at_ns: now_ns })?;
            ready_notify::bump(tx, universe, ready::shard(world))?;
        }
        child_work::look_again(tx, universe, world).await?;
        let after = WorldMeta { state, ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)
    }
}
