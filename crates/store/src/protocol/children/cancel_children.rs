//! Begin to cancel all children of a parent.
//!
//! Guarantees: the request is on record with the queue number before which it reaches, so one that comes again reaches the same children and none that was
//! spawned since. Each of them is cancelled by a [`CancelChild`](super::CancelChild) of its own.
//! Unknown commit: run again; the second run finds the record of the first.

use super::{RequestName, transition::Parent};
use crate::{OnUnknown, Protocol, StoreError, protocol::require_world};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone)]
pub struct BeginCancelChildren {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub request: RequestName,
    pub now_ns: u64,
}

impl Protocol for BeginCancelChildren {
    /// The first `queue_seq` that is not reached.
    type Output = u64;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<u64, StoreError> {
        let Self { universe, parent: world, now_ns, ref request } = *self;
        require_world(tx, universe, world).await?;
        let known = request.answered(tx, (universe, world), now_ns).await?;
        if let Some(before) = known.and_then(|answer| answer.parse().ok()) {
            return Ok(before);
        }
        let before = Parent { universe, world, now_ns }.state(tx).await?.next_queue_seq;
        request.remember(tx, (universe, world), &before.to_string(), now_ns)?;
        Ok(before)
    }
}
