//! Give worlds of an earlier version their entries in the index, and their names the keys that lead to them.
//!
//! Guarantees: after the last part, every world has the entries that follow from it. Each part is one transaction; a world that changes meanwhile makes its part
//! conflict and run again. An entry that is there already stays.
//! Unknown commit: run again; it is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{last_active, manifest_at, named_world, world_index, world_meta},
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Height, UniverseId, WorldId};

/// Worlds of one transaction.
const WORLDS_MAX: usize = 100;

/// One part.
#[derive(Debug, Clone, Copy)]
pub struct IndexWorlds {
    pub universe: UniverseId,
    pub after: Option<WorldId>,
}

/// All parts.
pub async fn index_worlds<E: Engine>(
    engine: &E,
    clock: &dyn crate::Clock,
    universe: UniverseId,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        after = crate::run(engine, clock, &IndexWorlds { universe, after }).await?.output;
        if after.is_none() {
            return Ok(());
        }
    }
}

impl Protocol for IndexWorlds {
    /// Where the next part begins; `None` at the end.
    type Output = Option<WorldId>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<WorldId>, StoreError> {
        let universe = self.universe;
        let mut span = world_meta::worlds_prefix(universe).span();
        if let Some(after) = self.after {
            span.start = world_meta::world_prefix(universe, after).span().end;
        }
        for count in 1.. {
            let found = tx.range(span.read(1).snapshot()).await?;
            let Some((key, _)) = found.items.first() else { return Ok(None) };
            let world = world_meta::world_of_key(universe, key)?;
            span.start = world_meta::world_prefix(universe, world).span().end;
            index(tx, universe, world).await?;
            if count == WORLDS_MAX {
                return Ok(Some(world));
            }
        }
        Ok(None)
    }
}

async fn index<T: Transaction>(tx: &mut T, universe: UniverseId, world: WorldId) -> Result<(), StoreError> {
    let Some(meta) = world_meta::read(tx, universe, world).await? else { return Ok(()) };
    world_index::follow(tx, universe, world, None, &meta)?;
    if !meta.state.is_gone() {
        let manifest = manifest_at::read(tx, universe, world, Height::new(u64::MAX)).await?;
        world_index::follow_manifest(tx, universe, world, None, manifest)?;
        let active_ns = last_active::indexed_at(tx, universe, world).await?;
        world_index::follow_active(tx, universe, world, None, Some(active_ns))?;
    }
    match &meta.name {
        Some(name) if named_world::read(tx, universe, name).await?.is_none() => {
            named_world::write(tx, universe, name, world)
        }
        _ => Ok(()),
    }
}
