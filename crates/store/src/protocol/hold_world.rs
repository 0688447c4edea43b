//! Put a world on hold, and release it.
//!
//! Guarantees: a world on hold is acquired by nobody, whatever process starts, until it is released; it has no lease and no
//! ready hint. All that it is stays, and its inbox takes in what fits. Only the holder of its lease puts it on hold. The first
//! hold stays until it is released.
//! Unknown commit: run again. A hold whose lease is gone with it was applied, or someone else has the world: either way
//! there is nothing left to do.

use super::{WorldError, release_lease::clear_holder, require_live, require_world};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        inbox_entry, journal_head,
        ready::{self, ReadyHint},
        ready_notify,
        world_meta::{self, Hold, WorldMeta, WorldState},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Code, Height, UniverseId, WorldId, limits};

#[derive(Debug, Clone)]
pub struct HoldWorld {
    pub fence: Fence,
    pub code: Code,
    pub reason: String,
    /// How many attempts failed in a row.
    pub failures: u32,
    pub now_ns: u64,
}

impl Protocol for HoldWorld {
    type Output = Hold;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Hold, StoreError> {
        let Fence { universe, world, epoch } = self.fence;
        self.fence.check(tx).await?;
        let meta = require_live(tx, universe, world).await?;
        // What cannot be read may be why the world is put on hold.
        let position = journal_head::read(tx, universe, world).await.ok().flatten();
        let cursor = position.and_then(|position| position.cursor);
        let waiting = tx.range(inbox_entry::after(universe, world, cursor).read(1).snapshot()).await?;
        let seq = waiting.items.first().and_then(|(key, _)| inbox_entry::parse(universe, world, key).ok());
        let reason = self.reason[..self.reason.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned();
        let hold = Hold {
            since_ns: self.now_ns,
            code: self.code.to_string(),
            reason,
            failures: self.failures,
            height: position.map_or(Height::GENESIS, |position| position.head.height),
            seq,
        };
        clear_holder(tx, universe, world, epoch)?;
        ready::remove(tx, universe, world, meta.ready_priority())?;
        world_meta::write(tx, universe, world, &WorldMeta { hold: Some(hold.clone()), ..meta })?;
        Ok(hold)
    }
}

/// A worker may run the world again. Says why it was on hold, if it was.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseHold {
    pub universe: UniverseId,
    pub world: WorldId,
    pub now_ns: u64,
}

impl Protocol for ReleaseHold {
    type Output = Option<Hold>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Hold>, StoreError> {
        let Self { universe, world, now_ns } = *self;
        let meta = require_world(tx, universe, world).await?;
        if matches!(meta.state, WorldState::Deleting | WorldState::Deleted) {
            return Err(WorldError::Deleted(world).into());
        }
        let Some(hold) = meta.hold.clone() else { return Ok(None) };
        if meta.state == WorldState::Live {
            ready::write(tx, universe, world, meta.ready_priority(), &ReadyHint { at_ns: now_ns })?;
            ready_notify::bump(tx, universe, ready::shard(world))?;
        }
        world_meta::write(tx, universe, world, &WorldMeta { hold: None, ..meta })?;
        Ok(Some(hold))
    }
}
