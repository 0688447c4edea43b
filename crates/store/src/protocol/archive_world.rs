//! Archive a world, or take it out of the archive.
//!
//! Guarantees: an archived world takes nothing in and nobody acquires it; who held it holds it no more. All that it is
//! stays. What waits in its inbox is taken when it comes back. Archiving twice is archiving once.
//! Unknown commit: run again; it is idempotent.

use super::{WorldError, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        lease::{self, Lease},
        lease_term,
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
}

impl Protocol for ArchiveWorld {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, world, archived } = *self;
        let meta = require_world(tx, universe, world).await?;
        let state = match meta.state {
            WorldState::Deleting | WorldState::Deleted => return Err(WorldError::Deleted(world).into()),
            WorldState::Live | WorldState::Archived if archived => WorldState::Archived,
            WorldState::Live | WorldState::Archived => WorldState::Live,
        };
        if meta.state == state {
            return Ok(());
        }
        if let Some(held @ Lease { holder: Some(_), .. }) = lease::read(tx, universe, world).await?.filter(|_| archived)
        {
            lease::write(tx, universe, world, &Lease { holder: None, ..held })?;
            tx.delete(lease_term::key(universe, world).as_bytes())?;
        }
        world_meta::write(tx, universe, world, &WorldMeta { state, ..meta })
    }
}
