//! Dispatch: the children of one parent, in order, as long as there is room.

use super::{ChildExecutor, is_external, kinds::BUILT_IN, recovery::recover_parent};
use crate::Plane;
use mundi_model::{
    Code, UniverseId, WorldId,
    child::{ChildId, Phase},
    limits,
};
use mundi_store::{
    StoreError,
    keyspace::child_state::ChildState,
    protocol::{
        CancelChild, CancelRequested, ChildDispatched, FailQueuedChild, LeaseChild, ListChildren, ReadChildState,
    },
};

impl<P: Plane> ChildExecutor<P> {
    /// Recovers what is orphaned, then dispatches what waits. Says how the parent's children stand then.
    pub(super) async fn look_at(&self, parent: WorldId) -> Result<ChildState, StoreError> {
        let counts = self.metrics.children();
        recover_parent(&self.plane, self.universe, parent, None, counts).await?;
        while self.running.len() < self.config.children_max {
            let lease = LeaseChild {
                universe: self.universe,
                parent,
                kinds: self.kinds.keys().cloned().collect(),
                worker: self.worker,
                token: self.plane.random(),
                ttl_ns: self.config.lease_ns,
                now_ns: self.plane.now_ns(),
            };
            match self.plane.run(&lease).await?.output {
                ChildDispatched::Leased { claim, token } => {
                    counts.dispatched(&token.kind);
                    self.launch(claim, *token);
                }
                ChildDispatched::RecoverFirst => {
                    recover_parent(&self.plane, self.universe, parent, None, counts).await?;
                }
                // Someone else may run it: a worker outside, or another process of the fleet.
                ChildDispatched::OtherKind { kind, .. } if is_external(&kind) => break,
                ChildDispatched::OtherKind { kind, .. } if !self.config.is_alone && BUILT_IN.contains(&&*kind) => break,
                ChildDispatched::OtherKind { kind, child } => {
                    self.fail_queued(parent, child, format!("no executor runs children of kind `{kind}`")).await?;
                    counts.ended(&kind, Some(Code::UrmChildKindInvalid.as_str()));
                }
                ChildDispatched::ParentArchived => {
                    cancel_all(&self.plane, self.universe, parent, &format!("archived:{parent}")).await?;
                    break;
                }
                ChildDispatched::Full | ChildDispatched::Idle => break,
            }
        }
        Ok(self.plane.run(&ReadChildState { universe: self.universe, parent }).await?.output)
    }

    /// Nobody can run it: it ends without a dispatch.
    async fn fail_queued(&self, parent: WorldId, child: ChildId, reason: String) -> Result<(), StoreError> {
        let (universe, code, now_ns) = (self.universe, Code::UrmChildKindInvalid, self.plane.now_ns());
        self.plane.run(&FailQueuedChild { universe, parent, child, code, reason, now_ns }).await.map(drop)
    }
}

/// Cancels every child of a parent that has not ended, each under an id of its own that follows from `reason`.
pub async fn cancel_all<P: Plane>(
    plane: &P,
    universe: UniverseId,
    parent: WorldId,
    reason: &str,
) -> Result<Vec<(ChildId, CancelRequested)>, StoreError> {
    let (mut cancelled, mut after) = (Vec::new(), None);
    loop {
        let items_max = limits::CHILD_PARENTS_PAGE;
        let page = plane.run(&ListChildren { universe, parent, after, items_max }).await?.output;
        for token in page.iter().filter(|token| token.phase != Phase::Terminal) {
            let (child, now_ns) = (token.child, plane.now_ns());
            let cancel_request_id = format!("{reason}:{child}");
            let cancel = CancelChild { universe, parent, child, cancel_request_id, request: None, now_ns };
            cancelled.push((child, plane.run(&cancel).await?.output));
        }
        match page.last() {
            Some(last) if page.len() == items_max => after = Some(last.queue_seq),
            _ => return Ok(cancelled),
        }
    }
}
