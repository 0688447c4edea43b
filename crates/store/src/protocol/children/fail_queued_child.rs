//! Fail a child that waits: the one place where a child ends without a dispatch and without a cancel.
//!
//! Guarantees: the child is terminal with `WORKER_FAIL`, its code and its reason, and its parent has the receipt. Only a child that is
//! queued is failed so.
//! Unknown commit: run again; a child that is not queued any more is left as it is.

use super::{
    cancel_child::leave_queue,
    transition::{End, Parent},
};
use crate::{OnUnknown, Protocol, StoreError};
use mundi_engine::Transaction;
use mundi_model::{
    Code, UniverseId, WorldId,
    child::{ChildId, Phase},
};

#[derive(Debug, Clone)]
pub struct FailQueuedChild {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: ChildId,
    pub code: Code,
    pub reason: String,
    pub now_ns: u64,
}

impl Protocol for FailQueuedChild {
    /// Whether it was queued.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let parent = Parent { universe: self.universe, world: self.parent, now_ns: self.now_ns };
        let token = parent.token(tx, self.child).await?;
        if token.phase != Phase::Queued {
            return Ok(false);
        }
        let mut state = parent.state(tx).await?;
        leave_queue(&mut state, &token);
        parent.end(tx, &mut state, token, &End::failed(self.code, self.reason.clone())).await?;
        Ok(true)
    }
}
