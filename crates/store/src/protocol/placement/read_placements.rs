//! Read where some worlds should run, and whether they have work.
//!
//! Guarantees: one consistent moment. Adds no conflict: a caller that acts on it compares what it saw.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family,
        assignment::{self, Assignment},
        get_snapshot, ready,
        world_meta::{self, WorldMeta, WorldState},
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone)]
pub struct ReadPlacements {
    pub universe: UniverseId,
    /// As many as a page of the lists that they come from.
    pub worlds: Vec<WorldId>,
}

/// Where a world should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub world: WorldId,
    pub assignment: Option<Assignment>,
    /// That of its hint.
    pub priority: u8,
    /// It lives and has work.
    pub is_ready: bool,
}

impl Protocol for ReadPlacements {
    type Output = Vec<Placement>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let universe = self.universe;
        let keys = |world: &WorldId| {
            let usual = ready::key(universe, ready::PRIORITY_NORMAL, *world);
            [world_meta::key(universe, *world), assignment::key(universe, *world), usual].map(|key| key.planned())
        };
        ReadPlan::reads(self.worlds.iter().flat_map(keys))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<Placement>, StoreError> {
        let universe = self.universe;
        let mut placements = Vec::with_capacity(self.worlds.len());
        for world in self.worlds.iter().copied() {
            let meta: Option<WorldMeta> =
                get_snapshot(tx, Family::WorldMeta, &world_meta::key(universe, world)).await?;
            let Some(meta) = meta else { continue };
            let assignment = assignment::read_snapshot(tx, universe, world).await?;
            let priority = meta.ready_priority();
            let hint = tx.get_snapshot(ready::key(universe, priority, world).as_bytes()).await?;
            let is_ready = meta.state == WorldState::Live && hint.is_some();
            placements.push(Placement { world, assignment, priority, is_ready });
        }
        Ok(placements)
    }
}
