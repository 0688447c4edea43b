//! Find claims by their token: what a commit with an unknown result has claimed.
//!
//! Guarantees: reads only. A token is drawn for one claim, so whatever is held under it was applied, and belongs to the caller.
//! A commit that is applied after the look is not found; its claim expires as that of a worker that crashed.
//! Unknown commit: there is none.

use crate::protocol::{ClaimedEffect, EffectClaim};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        QueueShard,
        effect_inflight::{self, EffectInflight},
        low_water::{self, LowWater},
        queue::Queue,
    },
};
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{UniverseId, limits};

#[derive(Debug, Clone)]
pub struct FindClaims {
    pub universe: UniverseId,
    pub queue_shards: Vec<QueueShard>,
    pub token: [u8; 16],
}

impl Protocol for FindClaims {
    type Output = Vec<ClaimedEffect>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let mark =
            |queue_shard: &QueueShard| low_water::key(self.universe, Queue::EffectClaims, *queue_shard).planned();
        ReadPlan::reads(self.queue_shards.iter().map(mark))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<ClaimedEffect>, StoreError> {
        let mut found = Vec::new();
        for queue_shard in &self.queue_shards {
            self.look(tx, *queue_shard, &mut found).await?;
        }
        Ok(found)
    }
}

impl FindClaims {
    async fn look<T: Transaction>(
        &self,
        tx: &mut T,
        queue_shard: QueueShard,
        found: &mut Vec<ClaimedEffect>,
    ) -> Result<(), StoreError> {
        let universe = self.universe;
        let mark = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::EffectClaims, queue_shard).await?);
        let mut span = effect_inflight::from(universe, queue_shard, mark);
        loop {
            let page = tx.range(span.read(limits::CLAIMS_MAX).snapshot()).await?;
            for (key, bytes) in &page.items {
                // One that cannot be read is left to the reaper, which makes a dead letter of it.
                let Ok(EffectInflight { claim, item, .. }) = effect_inflight::decode(key, bytes) else { continue };
                if claim.token == self.token {
                    let seq = effect_inflight::parse(universe, queue_shard, key)?;
                    let (token, world, intent) = (claim.token, item.world, item.intent);
                    let proof = EffectClaim { universe, queue_shard, seq, token, world, intent };
                    found.push(ClaimedEffect { proof, claim, item });
                }
            }
            match page.items.last().filter(|_| page.more) {
                Some((key, _)) => span = span.after_bytes(key),
                None => return Ok(()),
            }
        }
    }
}
