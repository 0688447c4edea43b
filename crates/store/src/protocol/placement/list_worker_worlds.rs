//! List the worlds that a worker should run, in pages.
//!
//! Guarantees: each page is one consistent moment; worlds come in the order of their ids.
//! Unknown commit: cannot be; it writes nothing.

use crate::{OnUnknown, Protocol, StoreError, keyspace::assigned_world};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId, limits};

#[derive(Debug, Clone, Copy)]
pub struct ListWorkerWorlds {
    pub universe: UniverseId,
    pub worker: WorkerId,
    pub after: Option<WorldId>,
    pub items_max: usize,
}

impl Protocol for ListWorkerWorlds {
    type Output = Vec<WorldId>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<WorldId>, StoreError> {
        let Self { universe, worker, after, items_max } = *self;
        let all = assigned_world::prefix(universe, worker).span();
        let span = match after {
            Some(world) => all.after(&assigned_world::key(universe, worker, world)),
            None => all,
        };
        let page = tx.range(span.read(items_max.clamp(1, limits::RANGE_ITEMS_MAX)).snapshot()).await?;
        page.items.iter().map(|(key, _)| assigned_world::parse(universe, worker, key)).collect()
    }
}
