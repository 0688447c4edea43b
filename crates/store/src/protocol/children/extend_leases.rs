//! Extend the leases of an executor's children of one parent, and learn which are lost or cancelled.
//!
//! Guarantees: only a lease that is held is extended. A lease that has run out and was not recovered yet is held.
//! Unknown commit: run again; extending twice is extending once.

use super::{ChildClaim, transition::Parent};
use crate::{OnUnknown, Protocol, StoreError};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, child::ChildId};

#[derive(Debug, Clone)]
pub struct ExtendChildLeases {
    pub universe: UniverseId,
    pub parent: WorldId,
    /// The children and the tokens of their leases.
    pub held: Vec<(ChildId, [u8; 16])>,
    pub until_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseHeld {
    Held,
    /// It is held, and someone asked for the child's cancellation.
    Cancel,
    Lost,
}

impl ExtendChildLeases {
    pub fn of(claim: &ChildClaim, until_ns: u64) -> Self {
        let ChildClaim { universe, parent, child, token } = *claim;
        Self { universe, parent, held: vec![(child, token)], until_ns }
    }
}

impl Protocol for ExtendChildLeases {
    /// In the order of the children.
    type Output = Vec<LeaseHeld>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<LeaseHeld>, StoreError> {
        let parent = Parent { universe: self.universe, world: self.parent, now_ns: self.until_ns };
        let mut state = parent.state(tx).await?;
        let mut changed = false;
        let held = self.held.iter().map(|(child, token)| {
            let active = state.active.iter_mut().find(|active| active.child == *child && active.lease.token == *token);
            let Some(active) = active else { return LeaseHeld::Lost };
            if active.lease.deadline_ns.is_some_and(|deadline| deadline < self.until_ns) {
                active.lease.deadline_ns = Some(self.until_ns);
                changed = true;
            }
            if active.cancel { LeaseHeld::Cancel } else { LeaseHeld::Held }
        });
        let held = held.collect();
        if changed {
            parent.write_state(tx, &state)?;
        }
        Ok(held)
    }
}
