//! Delete a world.
//!
//! Guarantees: first the world takes nothing in any more, in one transaction, with which its holder loses it: that needs no lease, as
//! an archive needs none. Then its keys go, in bounded chunks, each fenced; then it is marked as deleted. What stays is its meta record, so that its id is never used again, and
//! its lease, so that no fencing token is ever reborn. A world whose history is shared by forks is not deleted.
//! Its segments and blobs become unreachable and are swept; queued effects and timers of it are dropped by whoever
//! claims them, because the world takes no receipt.
//! While a sweep walks through the worlds, keys stay: a reference that moved out of this world must not escape it. The world is
//! deleted for everybody else all the same, and the sweep removes the keys when the walk is over. The keys of a walk whose holder
//! stopped its heartbeats do not stay for long: the walk is cancelled. A dry run removes nothing, and so it keeps no keys either.
//! Unknown commit: run again; each step removes what is left. A deletion that stopped is finished by another run, or by a sweep.

use crate::protocol::{ReleaseLease, WorldError, release_lease::clear_holder, require_world, snapshot_due};
use crate::{
    Clock, Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        Key, Span, assigned_world, assignment, child_work, effect_dedupe, forked_world, last_active,
        lease::{self, Lease},
        lease_term, manifest_at, ready, sweep_state, timer_dedupe, world_index,
        world_meta::{self, WorldMeta, WorldState},
    },
    run,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Height, UniverseId, WorldId};

/// How many keys one transaction removes.
pub(crate) const DELETE_CHUNK_KEYS: usize = 2_000;

/// Deletes a world under its fence, which is given back if the keys are left to a sweep. Running it again on a deleted world
/// changes nothing.
pub async fn delete_world<E: Engine>(engine: &E, clock: &dyn Clock, fence: Fence) -> Result<(), StoreError> {
    while delete_step(engine, clock, fence).await? == DeleteStep::More {}
    Ok(())
}

/// One step of a deletion; the fence is given back if the rest is left to a sweep.
pub(crate) async fn delete_step<E: Engine>(
    engine: &E,
    clock: &dyn Clock,
    fence: Fence,
) -> Result<DeleteStep, StoreError> {
    let step = run(engine, clock, &DeleteWorld { fence, now_ns: clock.now_ns() }).await?.output;
    if step == DeleteStep::Deferred {
        run(engine, clock, &ReleaseLease { fence, active_at_ns: None }).await?;
    }
    Ok(step)
}

/// Begins a deletion, whoever holds the world: from then on nobody acquires it but those who delete it. One that is refused leaves
/// the world as it was. Beginning it again changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct CloseWorld {
    pub universe: UniverseId,
    pub world: WorldId,
}

impl Protocol for CloseWorld {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, world } = *self;
        let meta = require_world(tx, universe, world).await?;
        match meta.state {
            WorldState::Deleting => return Ok(()),
            WorldState::Deleted => return Err(WorldError::Deleted(world).into()),
            WorldState::Live | WorldState::Archived => {}
        }
        close(tx, universe, world, meta).await?;
        // Turns ask only whether their lease is held: its holder must lose it with this.
        match lease::read(tx, universe, world).await? {
            Some(Lease { epoch, holder: Some(_), .. }) => clear_holder(tx, universe, world, epoch),
            _ => Ok(()),
        }
    }
}

async fn close<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    meta: WorldMeta,
) -> Result<(), StoreError> {
    let forks = tx.range(forked_world::prefix(universe, world).span().read(100)).await?;
    if !forks.items.is_empty() {
        return Err(WorldError::HasForks { world, children: forks.items.len() }.into());
    }
    if let Some(assigned) = assignment::read(tx, universe, world).await? {
        if let Some(worker) = assigned.desired {
            assigned_world::remove(tx, universe, worker, world)?;
        }
        tx.delete(assignment::key(universe, world).as_bytes())?;
    }
    ready::remove(tx, universe, world, meta.ready_priority())?;
    snapshot_due::forget(tx, universe, world).await?;
    child_work::look_again(tx, universe, world).await?;
    let manifest = manifest_at::read(tx, universe, world, Height::new(u64::MAX)).await?;
    world_index::follow_manifest(tx, universe, world, manifest, None)?;
    let active_ns = last_active::indexed_at(tx, universe, world).await?;
    world_index::follow_active(tx, universe, world, Some(active_ns), None)?;
    let after = WorldMeta { state: WorldState::Deleting, ..meta.clone() };
    world_meta::write(tx, universe, world, Some(&meta), &after)
}

/// The work that a step of a deletion leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteStep {
    More,
    Done,
    /// The world is deleted; a sweep that walks removes its keys later.
    Deferred,
}

/// One step of a deletion.
#[derive(Debug, Clone, Copy)]
pub struct DeleteWorld {
    pub fence: Fence,
    pub now_ns: u64,
}

impl Protocol for DeleteWorld {
    type Output = DeleteStep;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<DeleteStep, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let meta = require_world(tx, universe, world).await?;
        if meta.state == WorldState::Deleted {
            return Ok(DeleteStep::Done);
        }
        self.fence.check(tx).await?;
        match meta.state {
            WorldState::Live | WorldState::Archived => {
                close(tx, universe, world, meta).await?;
                return Ok(DeleteStep::More);
            }
            _ if self.is_walked(tx).await? => return Ok(DeleteStep::Deferred),
            _ => {}
        }
        match self.chunk(tx).await? {
            0 => self.finish(tx, &meta).map(|()| DeleteStep::Done),
            _ => Ok(DeleteStep::More),
        }
    }
}

impl DeleteWorld {
    /// Whether a sweep is gathering references. One whose holder stopped its heartbeats is cancelled.
    async fn is_walked<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let mut state = sweep_state::read(tx, self.fence.universe).await?;
        let Some(running) = state.running.as_ref().filter(|running| running.keeps_worlds()) else {
            return Ok(false);
        };
        if running.until_ns > self.now_ns {
            return Ok(true);
        }
        state.running = None;
        sweep_state::write(tx, self.fence.universe, &state)?;
        Ok(false)
    }

    /// Removes some of the world's keys; returns how many.
    async fn chunk<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let kept = [world_meta::key, lease::key, lease_term::key].map(|key| key(universe, world));
        let spans = [
            world_meta::world_prefix(universe, world).span(),
            effect_dedupe::of_world(universe, world),
            timer_dedupe::of_world(universe, world),
        ];
        for span in spans {
            let removed = remove_some(tx, &span, &kept).await?;
            if removed > 0 {
                return Ok(removed);
            }
        }
        Ok(0)
    }

    fn finish<T: Transaction>(&self, tx: &mut T, meta: &WorldMeta) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        if let Some(lineage) = &meta.lineage {
            tx.delete(forked_world::key(universe, lineage.parent, world).as_bytes())?;
        }
        // An executor may have removed it, and a child that ended meanwhile written it again.
        tx.delete(child_work::key(universe, world).as_bytes())?;
        let after = WorldMeta { state: WorldState::Deleted, ..meta.clone() };
        world_meta::write(tx, universe, world, Some(meta), &after)
    }
}

/// Keys are removed one by one, not as a range: a range would take the kept ones along.
async fn remove_some<T: Transaction>(tx: &mut T, span: &Span, kept: &[Key]) -> Result<usize, StoreError> {
    let page = tx.range(span.read(DELETE_CHUNK_KEYS).snapshot()).await?;
    let mut removed = 0;
    for (key, _) in page.items {
        if !kept.iter().any(|kept| kept.as_bytes() == &key[..]) {
            tx.delete(&key)?;
            removed += 1;
        }
    }
    Ok(removed)
}
