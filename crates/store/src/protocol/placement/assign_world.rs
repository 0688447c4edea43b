//! Assign a world to a worker, or to none.
//!
//! Guarantees: the assignment and the worker's own list of worlds agree. It is intent only: the process that holds the lease
//! keeps it until it lets go. A ready hint moves to the priority that is assigned.
//! Unknown commit: run again; it is idempotent.

use crate::protocol::require_live;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        assigned_world,
        assignment::{self, Assignment},
        ready,
        world_meta::{self, WorldMeta},
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone)]
pub struct AssignWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    pub assignment: Assignment,
}

impl Protocol for AssignWorld {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        read_plan(self.universe, self.world)
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, world, assignment } = self;
        let (meta, before) = read(tx, *universe, *world).await?;
        if before.as_ref() == Some(assignment) {
            return Ok(());
        }
        self.write(tx, meta, before).await
    }
}

/// The reads of [`read`].
pub(in crate::protocol) fn read_plan(universe: UniverseId, world: WorldId) -> ReadPlan {
    ReadPlan::reads([world_meta::key, assignment::key].map(|key| key(universe, world).planned()))
}

/// The state that an assignment depends on.
pub(in crate::protocol) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
) -> Result<(WorldMeta, Option<Assignment>), StoreError> {
    let meta = require_live(tx, universe, world).await?;
    Ok((meta, assignment::read(tx, universe, world).await?))
}

impl AssignWorld {
    /// Instead of what was [`read`].
    pub(in crate::protocol) async fn write<T: Transaction>(
        &self,
        tx: &mut T,
        meta: WorldMeta,
        before: Option<Assignment>,
    ) -> Result<(), StoreError> {
        let Self { universe, world, assignment } = self;
        if let Some(worker) = before.and_then(|before| before.desired) {
            assigned_world::remove(tx, *universe, worker, *world)?;
        }
        if let Some(worker) = assignment.desired {
            assigned_world::write(tx, *universe, worker, *world)?;
        }
        let ranks = (meta.ready_priority(), assignment.priority);
        if ranks.0 != ranks.1 {
            ready::rank(tx, *universe, *world, ranks).await?;
            let after = WorldMeta { priority: Some(ranks.1), ..meta.clone() };
            world_meta::write(tx, *universe, *world, Some(&meta), &after)?;
        }
        assignment::write(tx, *universe, *world, assignment)
    }
}
