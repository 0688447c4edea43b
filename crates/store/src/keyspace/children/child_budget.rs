//! `u/<u>/w/<w>/children/budgets/<lane>`: what the children of a parent have spent of a lane, and may spend.
//!
//! Written by the protocols that end a child or take its report, and by `set_budget`. The total is monotonic; the limit changes.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, get, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, child::Lane};

/// The authority on a lane: a running total under `running_total_v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct ChildBudget {
    #[n(0)]
    pub total: u64,
    /// Absent: unbounded.
    #[n(1)]
    pub limit: Option<u64>,
}

impl ChildBudget {
    /// Whether a debit is accepted: up to the limit, and with it.
    pub fn accepts(&self, debit: u64) -> bool {
        let after = self.total.checked_add(debit);
        after.is_some_and(|after| self.limit.is_none_or(|limit| after <= limit))
    }
}

pub fn key(universe: UniverseId, parent: WorldId, lane: Lane) -> Key {
    KeyBuilder::world(universe, parent, Family::ChildBudget).u8(lane as u8).key()
}

/// The commit depends on it, also on its absence.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    lane: Lane,
) -> Result<ChildBudget, StoreError> {
    Ok(get(tx, Family::ChildBudget, &key(universe, parent, lane)).await?.unwrap_or_default())
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    parent: WorldId,
    lane: Lane,
    budget: &ChildBudget,
) -> Result<(), StoreError> {
    put(tx, &key(universe, parent, lane), budget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    #[test]
    fn a_debit_up_to_the_limit_is_accepted_and_one_beyond_it_is_not() {
        let budget = ChildBudget { total: 7, limit: Some(10) };
        assert!(budget.accepts(3) && !budget.accepts(4));
        assert!(ChildBudget { total: 7, limit: None }.accepts(u64::MAX - 7));
        assert!(!ChildBudget { total: 7, limit: None }.accepts(u64::MAX));
    }

    proptest! {
        #[test]
        fn the_value_survives(total: u64, limit: Option<u64>, noise: Vec<u8>) {
            laws::value_survives(Family::ChildBudget, &ChildBudget { total, limit }, &noise)?;
        }
    }
}
