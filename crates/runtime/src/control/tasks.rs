//! Effects that are carried out by external workers.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{Code, Coded, Hash, WorkerId, limits};
use mundi_store::{
    blob::Blobs,
    keyspace::{QueueShard, Shard, effect_pending::EffectItem},
    protocol::{ClaimEffects, ClaimedEffect, EffectClaim, KindCap, ReapEffects, claim_effects},
};

/// In whose name external workers claim. It is the number of no process: one that starts again ends the claims of its own number,
/// and external workers go on meanwhile.
pub(super) const EXTERNAL: WorkerId = match WorkerId::new(i64::MAX.unsigned_abs() - 1) {
    Some(worker) => worker,
    None => panic!("it is not zero"),
};

impl<P: Plane> Ops<P> {
    /// Ends the claims on effects of a kind whose time is up. Where no adapter serves a kind, nobody else does.
    pub async fn reap_effects(&self, kind: &str) -> Result<(), RuntimeError> {
        for queue_shard in Shard::all().map(|shard| QueueShard::new(kind, shard)) {
            let (universe, now_ns, items_max) = (self.universe, self.plane.now_ns(), limits::CLAIMS_MAX);
            let reap = ReapEffects { universe, queue_shard, touched: false, items_max, now_ns, gone: None };
            self.plane.run(&reap).await?;
        }
        Ok(())
    }

    /// Claims up to so many effects of a kind for an external worker.
    pub async fn claim_effects(
        &self,
        kind: &str,
        items_max: usize,
        ttl_ns: u64,
        cap: KindCap,
    ) -> Result<Vec<ClaimedEffect>, RuntimeError> {
        let token: [u8; 16] = self.plane.random();
        let claim = ClaimEffects {
            universe: self.universe,
            kind: kind.to_owned(),
            worker: EXTERNAL,
            token,
            items_max,
            ttl_ns,
            now_ns: self.plane.now_ns(),
            first: Shard::of(&token),
            cap,
        };
        Ok(claim_effects(self.plane.engine(), &**self.plane.clock(), &claim).await?.effects)
    }

    /// The effect that a claim is about; `None` if it is not claimed any more.
    pub async fn claimed_effect(&self, claim: &EffectClaim) -> Result<Option<EffectItem>, RuntimeError> {
        match self.read_effect(claim.place()).await {
            Ok(found) => Ok(Some(found.item)),
            Err(error) if error.code() == Code::EffectNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the content store has an object.
    pub async fn has_object(&self, hash: Hash) -> Result<bool, RuntimeError> {
        use mundi_engine::Engine;
        let mut tx = self.plane.engine().begin().await?;
        Ok(self.plane.blobs().missing(&mut tx, self.universe, &[hash]).await?.is_empty())
    }
}
