//! Set what the children of a world may spend.
//!
//! Guarantees: the limits of the named lanes are replaced, together. Totals stay: a limit below a total refuses every further debit.
//! A request that comes again under its name changes nothing; under the same name with other limits it is refused.
//! Unknown commit: run again; setting a limit twice is setting it once.

use super::RequestName;
use crate::protocol::require_live;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::child_budget::{self, ChildBudget},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, child::Lane};

#[derive(Debug, Clone)]
pub struct SetBudget {
    pub universe: UniverseId,
    pub parent: WorldId,
    /// `None` for no limit.
    pub limits: Vec<(Lane, Option<u64>)>,
    pub request: Option<RequestName>,
    pub now_ns: u64,
}

impl Protocol for SetBudget {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Self { universe, parent, now_ns, .. } = *self;
        require_live(tx, universe, parent).await?;
        if let Some(request) = &self.request {
            if request.answered(tx, (universe, parent), now_ns).await?.is_some() {
                return Ok(());
            }
            request.remember(tx, (universe, parent), "", now_ns)?;
        }
        for (lane, limit) in &self.limits {
            let before = child_budget::read(tx, universe, parent, *lane).await?;
            child_budget::write(tx, universe, parent, *lane, &ChildBudget { limit: *limit, ..before })?;
        }
        Ok(())
    }
}
