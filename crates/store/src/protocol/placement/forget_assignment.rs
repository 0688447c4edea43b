//! Forget where a world should run: it rests, or its worker is gone or full.
//!
//! Guarantees: only the assignment that was seen goes, and never a pin. If the world has work, whoever places worlds is
//! told, so that it is placed again: its ready hint is read with a conflict, because a hint that was written while the world was still
//! assigned has been looked at already, and passed over. A world at rest is placed when it next has work.
//! Unknown commit: run again; what is gone is not what was seen.

use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        assigned_world,
        assignment::{self, Assignment},
        queue_notify::{self, WORKERS},
        ready, ready_notify,
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone)]
pub struct ForgetAssignment {
    pub universe: UniverseId,
    pub world: WorldId,
    pub seen: Assignment,
}

impl Protocol for ForgetAssignment {
    /// Whether it was there.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, world, ref seen } = *self;
        let actual = assignment::read(tx, universe, world).await?;
        if seen.pinned || actual.as_ref() != Some(seen) {
            return Ok(false);
        }
        if let Some(worker) = seen.desired {
            assigned_world::remove(tx, universe, worker, world)?;
        }
        tx.delete(assignment::key(universe, world).as_bytes())?;
        let priority = require_world(tx, universe, world).await?.ready_priority();
        let is_ready = tx.get(ready::key(universe, priority, world).as_bytes()).await?.is_some();
        if is_ready {
            ready_notify::bump(tx, universe, ready::shard(world))?;
            queue_notify::bump(tx, universe, WORKERS)?;
        }
        Ok(true)
    }
}
