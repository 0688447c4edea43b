//! A snapshot that is due makes its world ready.
//!
//! Guarantees: a world that falls idle with records above its newest snapshot is on the list of those whose snapshot is due, once, before
//! its ready hint goes; who finds it there when the time has come gives it a hint and takes it off the list, in one transaction. A hint
//! too many costs one look.
//! Unknown commit: run again; both are idempotent.

use crate::protocol::require_world;
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        ready::{self, ReadyHint},
        ready_notify, snapshot_due,
        snapshot_due_at::{self, SnapshotDueAt},
        world_meta::WorldState,
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};

/// Says when the next snapshot of a world is due, or that none is.
#[derive(Debug, Clone, Copy)]
pub struct NoteSnapshotDue {
    pub fence: Fence,
    pub due_ns: Option<u64>,
}

impl Protocol for NoteSnapshotDue {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.fence.check(tx).await?;
        let before = snapshot_due_at::read(tx, universe, world).await?.map(|at| at.due_ns);
        if before == self.due_ns {
            return Ok(());
        }
        forget(tx, universe, world).await?;
        if let Some(due_ns) = self.due_ns {
            snapshot_due_at::write(tx, universe, world, &SnapshotDueAt { due_ns })?;
            tx.put(snapshot_due::key(universe, due_ns, world).as_bytes(), Vec::new())?;
        }
        Ok(())
    }
}

/// Takes a world off the list.
pub(in crate::protocol) async fn forget<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<(), StoreError> {
    if let Some(at) = snapshot_due_at::read(tx, universe, world).await? {
        tx.delete(snapshot_due::key(universe, at.due_ns, world).as_bytes())?;
        tx.delete(snapshot_due_at::key(universe, world).as_bytes())?;
    }
    Ok(())
}

/// Makes worlds ready whose snapshot is due; says how many.
#[derive(Debug, Clone, Copy)]
pub struct WakeDueSnapshots {
    pub universe: UniverseId,
    pub now_ns: u64,
    pub items_max: usize,
}

impl Protocol for WakeDueSnapshots {
    type Output = usize;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let Self { universe, now_ns, items_max } = *self;
        let span = snapshot_due::until(universe, now_ns);
        let page = tx.range(span.read(items_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        for (key, _) in &page.items {
            let (_, world) = snapshot_due::parse(universe, key)?;
            let meta = require_world(tx, universe, world).await?;
            forget(tx, universe, world).await?;
            tx.delete(key)?;
            // One that is in the archive or on hold is looked at when it comes back.
            if meta.state == WorldState::Live && meta.hold.is_none() {
                ready::ensure(tx, universe, world, meta.ready_priority(), &ReadyHint { at_ns: now_ns }).await?;
                ready_notify::bump(tx, universe, ready::shard(world))?;
            }
        }
        Ok(page.items.len())
    }
}
