//! List the workers that have worlds assigned to them, those that are gone included.
//!
//! Guarantees: one consistent moment. Costs one read per worker, however many worlds it has: the index is skipped through.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Family, Span, assigned_world},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, limits};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy)]
pub struct ListAssignedWorkers {
    pub universe: UniverseId,
}

impl Protocol for ListAssignedWorkers {
    type Output = BTreeSet<WorkerId>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<BTreeSet<WorkerId>, StoreError> {
        let all = Family::AssignedWorld.prefix(self.universe).span();
        let (mut rest, mut workers) = (all.clone(), BTreeSet::new());
        while workers.len() < limits::RANGE_ITEMS_MAX {
            let page = tx.range(rest.read(1).snapshot()).await?;
            let Some((key, _)) = page.items.first() else { break };
            let worker = assigned_world::worker_of(self.universe, key)?;
            workers.insert(worker);
            rest = Span { start: assigned_world::prefix(self.universe, worker).span().end, end: all.end.clone() };
        }
        Ok(workers)
    }
}
