//! Extend claims on effects: the heartbeat of an adapter worker.
//!
//! Guarantees: a claim that is held under the same token lives until the new deadline; one that is not is reported, and
//! so is one that nobody waits for any more, so that its worker can stop. Deadlines only rise.
//! Unknown commit: run again; the same deadlines are written.

use crate::protocol::{EffectClaim, settle_effect::Held};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{effect_inflight, put},
};
use mundi_engine::{ReadPlan, Transaction};

/// At most [`CLAIMS_MAX`](mundi_model::limits::CLAIMS_MAX) at a time.
#[derive(Debug, Clone)]
pub struct ExtendClaims {
    pub claims: Vec<EffectClaim>,
    pub deadline_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extended {
    /// No longer held: the result of the work is discarded.
    pub lost: Vec<EffectClaim>,
    /// Held, and withdrawn by the world.
    pub withdrawn: Vec<EffectClaim>,
}

impl Protocol for ExtendClaims {
    type Output = Extended;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(self.claims.iter().flat_map(Held::reads))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Extended, StoreError> {
        let mut extended = Extended::default();
        for claim in &self.claims {
            match claim.held(tx).await? {
                Held::Mine(mut held) => {
                    held.claim.deadline_ns = held.claim.deadline_ns.max(self.deadline_ns);
                    put(tx, &effect_inflight::key(claim.universe, claim.queue_shard, claim.seq), &*held)?;
                }
                Held::Withdrawn(_) => extended.withdrawn.push(*claim),
                Held::Answered | Held::Over | Held::Lost => extended.lost.push(*claim),
            }
        }
        Ok(extended)
    }
}
