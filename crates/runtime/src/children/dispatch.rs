//! Dispatch: the children of one parent, in order, as long as there is room.

use super::{ChildCounts, ChildExecutor, is_external, kinds::BUILT_IN, recovery::recover_parent};
use crate::Plane;
use mundi_model::{
    Code, UniverseId, WorldId,
    child::{ChildId, Phase},
    limits,
};
use mundi_store::{
    StoreError,
    keyspace::{child_state::ChildState, child_work::ChildWork},
    protocol::{
        CancelChild, CancelOutcome, CancelRequested, ChildDispatched, FailQueuedChild, LeaseChild, ListChildren,
        ReadChildState,
    },
};

/// How a parent's children stand after a look.
pub(super) struct Looked {
    pub(super) state: ChildState,
    /// The first child that waits is not for this executor.
    pub(super) is_for_others: bool,
}

impl<P: Plane> ChildExecutor<P> {
    /// Dispatches what waits, after what is orphaned was recovered: also below a parent that dispatches nothing now.
    pub(super) async fn look_at(&self, parent: WorldId, work: &ChildWork) -> Result<Looked, StoreError> {
        let (counts, mut is_for_others) = (self.metrics.children(), false);
        // A row without a version does not say whether a lease has run out.
        if work.version == 0 || work.is_orphaned(self.plane.now_ns()) {
            recover_parent(&self.plane, self.universe, parent, None, counts).await?;
        }
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
                ChildDispatched::OtherKind { kind, .. } if self.may_be_for_others(&kind) => {
                    is_for_others = true;
                    break;
                }
                ChildDispatched::OtherKind { kind, child } => {
                    self.fail_queued(parent, child, format!("no executor runs children of kind `{kind}`")).await?;
                    counts.ended(&kind, Some(Code::UrmChildKindInvalid.as_str()));
                }
                ChildDispatched::ParentArchived => {
                    cancel_all(&self.plane, counts, (self.universe, parent), &format!("archived:{parent}")).await?;
                    break;
                }
                ChildDispatched::Full | ChildDispatched::Idle => break,
            }
        }
        let state = self.plane.run(&ReadChildState { universe: self.universe, parent }).await?.output;
        Ok(Looked { state, is_for_others })
    }

    /// A worker outside, or another process of the fleet.
    fn may_be_for_others(&self, kind: &str) -> bool {
        is_external(kind) || !self.config.is_alone && BUILT_IN.contains(&kind)
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
    counts: &ChildCounts,
    place: (UniverseId, WorldId),
    reason: &str,
) -> Result<u64, StoreError> {
    cancel_before(plane, counts, place, (reason, u64::MAX)).await
}

/// The same, for those whose `queue_seq` is below a number. Says how many children the cancel of this reason reached, now or before.
pub async fn cancel_before<P: Plane>(
    plane: &P,
    counts: &ChildCounts,
    (universe, parent): (UniverseId, WorldId),
    (reason, before): (&str, u64),
) -> Result<u64, StoreError> {
    // The id of a child stands whole behind it.
    let reason = &reason[..reason.floor_char_boundary(limits::NAME_BYTES_MAX / 2)];
    let (mut reached, mut after) = (0, None);
    loop {
        let items_max = limits::CHILD_PARENTS_PAGE;
        let page = plane.run(&ListChildren { universe, parent, after, items_max }).await?.output;
        for token in page.iter().take_while(|token| token.queue_seq < before) {
            let (child, now_ns) = (token.child, plane.now_ns());
            let cancel_request_id = format!("{reason}:{child}");
            let mut on_record = token.cancel_request_id.clone();
            if token.phase != Phase::Terminal {
                let id = cancel_request_id.clone();
                let cancel = CancelChild { universe, parent, child, cancel_request_id: id, request: None, now_ns };
                let CancelRequested { outcome, cancel_request_id } = plane.run(&cancel).await?.output;
                if outcome == CancelOutcome::Cancelled {
                    counts.perhaps_ended(plane, (universe, parent, child), now_ns).await;
                }
                on_record = cancel_request_id;
            }
            reached += u64::from(on_record == Some(cancel_request_id));
        }
        match page.last() {
            Some(last) if page.len() == items_max && last.queue_seq < before => after = Some(last.queue_seq),
            _ => return Ok(reached),
        }
    }
}
