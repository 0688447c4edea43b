//! End the probation of a worker's first cycle of a world that took no turn in it: a turn ends it with its own commit.
//!
//! Guarantees: from now on, an end of this holder counts nothing against the world, and what was counted before is forgotten. Only the
//! holder under the current epoch does it. Where there is no probation, nothing is written.
//! Unknown commit: run again; it is idempotent.

use crate::{
    Fence, Fenced, OnUnknown, Protocol, StoreError,
    keyspace::lease::{self, Lease},
};
use mundi_engine::Transaction;
use mundi_model::mutants::{Mutant, planted};

#[derive(Debug, Clone, Copy)]
pub struct EndProbation {
    pub fence: Fence,
}

impl Protocol for EndProbation {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, epoch } = self.fence;
        match lease::read(tx, universe, world).await? {
            Some(lease) if lease.epoch == epoch => end(tx, self.fence, lease),
            lease => Err(Fenced { fence: self.fence, current: lease.map(|lease| lease.epoch) }.into()),
        }
    }
}

/// The holder did not end in its first cycle.
pub(in crate::protocol) fn end<T: Transaction>(tx: &mut T, fence: Fence, lease: Lease) -> Result<(), StoreError> {
    if lease.probation.is_none() || planted(Mutant::ProbationKept) {
        return Ok(());
    }
    lease::write(tx, fence.universe, fence.world, &Lease { probation: None, ..lease })
}
