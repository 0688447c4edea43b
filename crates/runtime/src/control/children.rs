//! Children of worlds, for operators and for workers outside of Mundi.

use super::{Ops, tasks::EXTERNAL};
use crate::{
    Plane, RuntimeError,
    children::{cancel_all, cancel_before, hold_on_violation, hold_violated, recover_parent},
};
use mundi_kernel::{SPAWN_CHILD, children::SpawnChild};
use mundi_model::{
    Code, Hash, Value, WorldId, cbor,
    child::{ChildEvent, ChildId, ChildSpec, DispatchToken, Lane, Spend},
    limits,
    record::{InboxItem, Input, Operator, Origin, Payload, ReplyOutcome},
};
use mundi_store::{
    Protocol,
    keyspace::child_work::ChildWork,
    protocol::{
        BeginCancelChildren, BudgetLines, CancelChild, CancelOutcome, CancelRequested, ChildClaim, ChildDispatched,
        ChildFinish, ChildFinished, DebitChild, Debited, DescribeChild, ExtendChildLeases, FinishChild, LeaseChild,
        LeaseHeld, ListChildParents, ListChildren, NoteRequest, ReadBudget, ReadChildEvents, RequestName, SetBudget,
        StartChild,
    },
};
use std::time::Duration;

/// A change that a client asks for, under its own name for the request.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    pub client_request_id: String,
    /// Of the payload.
    pub payload: Hash,
}

impl ClientRequest {
    fn name(&self, endpoint: &'static str) -> RequestName {
        RequestName { endpoint, client_request_id: self.client_request_id.clone(), payload: self.payload }
    }
}

impl<P: Plane> Ops<P> {
    /// Spawns a child in place of the world's program, by a command that is journaled. The same request returns the same child.
    pub async fn child_spawn(
        &self,
        world: WorldId,
        params: Vec<u8>,
        request: &ClientRequest,
        (operator, timeout): (Operator, Duration),
    ) -> Result<ChildId, RuntimeError> {
        if let Err(error) = ChildSpec::read(&params) {
            let (code, reason) = (mundi_model::Coded::code(&error), error.to_string());
            return Err(RuntimeError::CommandFailed { code, reason });
        }
        let note = NoteRequest {
            universe: self.universe,
            parent: world,
            request: request.name("spawn"),
            now_ns: self.plane.now_ns(),
        };
        self.plane.run(&note).await?;
        let label = format!("request:{}", request.client_request_id);
        let command = SpawnChild { params, label, operator };
        let payload = Payload::Inline(cbor::encode(&command));
        let input = Input::Control { command: SPAWN_CHILD.to_owned(), payload };
        let item = InboxItem { input, origin: Origin::new(self.plane.now_ns()) };
        let key = format!("child.spawn/{}", request.client_request_id);
        let unreadable = |reason: String| RuntimeError::CommandFailed { code: Code::CborMalformed, reason };
        match self.call(world, item, Some(&key), timeout).await? {
            ReplyOutcome::Ok(Payload::Inline(bytes)) => match cbor::decode(&bytes) {
                Ok(Value::Text(child)) => child.parse().map_err(|_| unreadable("no child id".to_owned())),
                _ => Err(unreadable("the reply is no child id".to_owned())),
            },
            ReplyOutcome::Ok(Payload::Blob(..)) => Err(unreadable("a child id is never that large".to_owned())),
            ReplyOutcome::Failed(code, reason, _) => {
                let code = Code::from_name(&code).unwrap_or(Code::ProgramFailed);
                Err(RuntimeError::CommandFailed { code, reason })
            }
        }
    }

    pub async fn children(
        &self,
        world: WorldId,
        after: Option<u64>,
        items_max: usize,
    ) -> Result<Vec<DispatchToken>, RuntimeError> {
        let list = ListChildren { universe: self.universe, parent: world, after, items_max };
        Ok(self.plane.run(&list).await?.output)
    }

    pub async fn child(&self, world: WorldId, child: ChildId) -> Result<DispatchToken, RuntimeError> {
        Ok(self.plane.run(&DescribeChild { universe: self.universe, parent: world, child }).await?.output)
    }

    /// The events of a child from a place on, and whether no more follow.
    pub async fn child_events(
        &self,
        world: WorldId,
        child: ChildId,
        from: u64,
    ) -> Result<(Vec<ChildEvent>, bool), RuntimeError> {
        Ok(self.plane.run(&ReadChildEvents { universe: self.universe, parent: world, child, from }).await?.output)
    }

    /// Cancels a child. The same request answers the same.
    pub async fn child_cancel(
        &self,
        world: WorldId,
        child: ChildId,
        request: &ClientRequest,
    ) -> Result<CancelRequested, RuntimeError> {
        let cancel = CancelChild {
            universe: self.universe,
            parent: world,
            child,
            cancel_request_id: request.client_request_id.clone(),
            request: Some(request.name("cancel")),
            now_ns: self.plane.now_ns(),
        };
        let done = self.change_child(&cancel).await?;
        if done.outcome == CancelOutcome::Cancelled {
            self.count_end(world, child, cancel.now_ns).await;
        }
        Ok(done)
    }

    /// Runs a change of a child. If it finds that the children of a world contradict each other, that world is on hold, and the change is refused.
    async fn change_child<C: Protocol + Sync>(&self, change: &C) -> Result<C::Output, RuntimeError> {
        let done = self.plane.run(change).await.map(|done| done.output);
        Ok(hold_violated(&self.plane, self.universe, done).await?)
    }

    async fn count_end(&self, world: WorldId, child: ChildId, now_ns: u64) {
        self.metrics.children().perhaps_ended(&self.plane, (self.universe, world, child), now_ns).await;
    }

    /// Cancels all children of a world that have not ended. Says how many that are.
    pub async fn children_cancel(&self, world: WorldId, reason: &str) -> Result<u64, RuntimeError> {
        let cancelled = cancel_all(&self.plane, self.metrics.children(), (self.universe, world), reason).await;
        Ok(hold_violated(&self.plane, self.universe, cancelled).await?)
    }

    /// The same, as a client asks for it: the same request again reaches the same children, says the same, and goes on where an earlier one stopped.
    pub async fn children_cancel_requested(
        &self,
        world: WorldId,
        request: &ClientRequest,
    ) -> Result<u64, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        let begin = BeginCancelChildren { universe, parent: world, request: request.name("cancel_all"), now_ns };
        let before = self.change_child(&begin).await?;
        let (place, reach) = ((universe, world), (request.client_request_id.as_str(), before));
        let cancelled = cancel_before(&self.plane, self.metrics.children(), place, reach).await;
        Ok(hold_violated(&self.plane, universe, cancelled).await?)
    }

    pub async fn budget(&self, world: WorldId) -> Result<BudgetLines, RuntimeError> {
        Ok(self.plane.run(&ReadBudget { universe: self.universe, parent: world }).await?.output)
    }

    pub async fn budget_set(
        &self,
        world: WorldId,
        limits: Vec<(Lane, Option<u64>)>,
        request: &ClientRequest,
    ) -> Result<BudgetLines, RuntimeError> {
        let set = SetBudget {
            universe: self.universe,
            parent: world,
            limits,
            request: Some(request.name("budget")),
            now_ns: self.plane.now_ns(),
        };
        self.plane.run(&set).await?;
        self.budget(world).await
    }

    /// Leases children of these kinds for an external worker, at most so many.
    pub async fn children_claim(
        &self,
        kinds: &[String],
        items_max: usize,
        ttl_ns: u64,
    ) -> Result<Vec<(ChildClaim, DispatchToken)>, RuntimeError> {
        let (universe, mut claimed, mut after) = (self.universe, Vec::new(), None);
        loop {
            let page = self.plane.run(&ListChildParents { universe, after }).await?.output;
            let may_have_some = |work: &ChildWork| !work.blocked || work.is_orphaned(self.plane.now_ns());
            for (parent, _) in page.iter().filter(|(_, work)| may_have_some(work)) {
                let leased = self.claim_of(*parent, kinds, items_max - claimed.len(), ttl_ns).await;
                claimed.extend(hold_on_violation(&self.plane, (universe, *parent), leased).await?.unwrap_or_default());
                if claimed.len() >= items_max {
                    return Ok(claimed);
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == limits::CHILD_PARENTS_PAGE => after = Some(*last),
                _ => return Ok(claimed),
            }
        }
    }

    async fn claim_of(
        &self,
        parent: WorldId,
        kinds: &[String],
        items_max: usize,
        ttl_ns: u64,
    ) -> Result<Vec<(ChildClaim, DispatchToken)>, mundi_store::StoreError> {
        let mut claimed = Vec::new();
        while claimed.len() < items_max {
            let lease = LeaseChild {
                universe: self.universe,
                parent,
                kinds: kinds.to_vec(),
                worker: EXTERNAL,
                token: self.plane.random(),
                ttl_ns,
                now_ns: self.plane.now_ns(),
            };
            match self.plane.run(&lease).await?.output {
                ChildDispatched::Leased { claim, token } => {
                    self.metrics.children().dispatched(&token.kind);
                    claimed.push((claim, *token));
                }
                ChildDispatched::RecoverFirst => {
                    recover_parent(&self.plane, self.universe, parent, None, self.metrics.children()).await?;
                }
                _ => break,
            }
        }
        Ok(claimed)
    }

    /// The start of an external child: it is on record when this returns.
    pub async fn child_start(&self, claim: ChildClaim) -> Result<DispatchToken, RuntimeError> {
        let start = StartChild { claim, now_ns: self.plane.now_ns() };
        self.change_child(&start).await
    }

    pub async fn child_extend(&self, claim: ChildClaim, ttl_ns: u64) -> Result<LeaseHeld, RuntimeError> {
        let extend = ExtendChildLeases::of(&claim, self.plane.now_ns().saturating_add(ttl_ns));
        Ok(self.change_child(&extend).await?.first().copied().unwrap_or(LeaseHeld::Lost))
    }

    /// Reports the spending of an external child so far.
    pub async fn child_report(&self, claim: ChildClaim, spent: Spend) -> Result<Debited, RuntimeError> {
        let now_ns = self.plane.now_ns();
        let debited = self.change_child(&DebitChild { claim, spent, calls: None, now_ns }).await?;
        if debited != Debited::Accepted {
            self.count_end(claim.parent, claim.child, now_ns).await;
        }
        Ok(debited)
    }

    pub async fn child_finish(
        &self,
        claim: ChildClaim,
        finish: ChildFinish,
        spent: Spend,
    ) -> Result<ChildFinished, RuntimeError> {
        let now_ns = self.plane.now_ns();
        let token = self.child(claim.parent, claim.child).await?;
        let started_at_ns = token.started_at_ns.unwrap_or(now_ns);
        let spent = spent.lasting(started_at_ns, now_ns);
        let finish = FinishChild { claim, finish: crate::children::bounded(finish), spent, calls: None, now_ns };
        let finished = self.change_child(&finish).await?;
        self.metrics.children().finished(&finished, now_ns);
        Ok(finished)
    }
}
