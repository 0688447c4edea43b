//! Release a world's lease.
//!
//! Guarantees: the holder is cleared and the epoch stays, so the next acquisition gets a higher one and the token that
//! was released is invalid permanently. Releasing what was released under this epoch changes nothing.
//! Unknown commit: run again; it is idempotent.

use crate::{
    Fence, Fenced, OnUnknown, Protocol, StoreError,
    keyspace::{
        last_active,
        lease::{self, Lease},
        lease_term,
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{
    Epoch, UniverseId, WorldId,
    mutants::{Mutant, planted},
};

#[derive(Debug, Clone, Copy)]
pub struct ReleaseLease {
    pub fence: Fence,
    /// When a holder that took turns releases it; `None` for one that took none.
    pub active_at_ns: Option<u64>,
}

impl Protocol for ReleaseLease {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let Fence { universe, world, .. } = self.fence;
        let active = self.active_at_ns.map(|_| last_active::key(universe, world).planned());
        ReadPlan::reads([lease::key(universe, world).planned()].into_iter().chain(active))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, epoch } = self.fence;
        match lease::read(tx, universe, world).await? {
            Some(lease) if lease.epoch == epoch && lease.holder.is_none() => Ok(()),
            Some(lease) if lease.epoch == epoch => {
                let epoch = if planted(Mutant::EpochReset) { Epoch::INITIAL } else { epoch };
                if let Some(at_ns) = self.active_at_ns {
                    last_active::write(tx, universe, world, at_ns).await?;
                }
                clear_holder(tx, universe, world, epoch)
            }
            lease => Err(Fenced { fence: self.fence, current: lease.map(|lease| lease.epoch) }.into()),
        }
    }
}

/// The epoch stays, so that the next one is higher. A holder that releases has not ended in a cycle: its probation is over.
pub(in crate::protocol) fn clear_holder<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    epoch: Epoch,
) -> Result<(), StoreError> {
    lease::write(tx, universe, world, &Lease { epoch, holder: None, probation: None })?;
    Ok(tx.delete(lease_term::key(universe, world).as_bytes())?)
}
