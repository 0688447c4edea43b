//! `child.cancel`: a world cancels one of its children.
//!
//! Parameters: `child_id`, or `label` for the child that the program named so. The answer says `outcome` (`cancelled`, `requested` or
//! `already_terminal`), `child_id` and the `cancel_request_id` on record: the intent, because every attempt is the same request, or that of the request
//! that came first; null if the child ended without one. How the child ends arrives as the receipt of the intent that spawned it.

use crate::{
    Params,
    params::{map, text},
};
use futures_util::future::BoxFuture;
use mundi_model::{
    Code, Value,
    child::{CHILD_CANCEL, ChildId, Phase},
    limits,
};
use mundi_runtime::{
    Plane,
    children::hold_violated,
    effects::{Adapter, Call, invalid, refused},
    metrics::Metrics,
};
use mundi_store::protocol::{CancelChild, CancelOutcome, Failure, ListChildren, Repeat};
use std::sync::Arc;

pub struct ChildCancelAdapter<P> {
    plane: P,
    metrics: Arc<Metrics>,
}

impl<P: Plane> ChildCancelAdapter<P> {
    /// Counts the children that it ends.
    pub fn new(plane: P, metrics: Arc<Metrics>) -> Self {
        Self { plane, metrics }
    }

    async fn cancel(&self, call: &Call) -> Result<Value, Failure> {
        let params = Params::of(&call.params)?;
        let child = match params.text_or_none("child_id")? {
            Some(id) => id.parse().map_err(|_| invalid("`child_id` is not the id of a child"))?,
            None => self.labelled(call, params.text("label")?).await?,
        };
        let cancel = CancelChild {
            universe: call.universe,
            parent: call.world,
            child,
            cancel_request_id: call.intent.to_string(),
            request: None,
            now_ns: self.plane.now_ns(),
        };
        let done = self.plane.run(&cancel).await.map(|done| done.output);
        let done = hold_violated(&self.plane, call.universe, done).await.map_err(|error| refused(&error))?;
        if done.outcome == CancelOutcome::Cancelled {
            let place = (call.universe, call.world, child);
            self.metrics.children().perhaps_ended(&self.plane, place, cancel.now_ns).await;
        }
        Ok(map([
            ("outcome", text(done.outcome.as_str())),
            ("child_id", text(child.to_string())),
            ("cancel_request_id", done.cancel_request_id.map_or(Value::Null, text)),
        ]))
    }

    /// The child that has not ended and is called so.
    async fn labelled(&self, call: &Call, label: &str) -> Result<ChildId, Failure> {
        let (universe, parent, items_max, mut after) = (call.universe, call.world, limits::CHILD_PARENTS_PAGE, None);
        loop {
            let list = ListChildren { universe, parent, after, items_max };
            let page = self.plane.run(&list).await.map_err(|error| refused(&error))?.output;
            if let Some(found) = page.iter().find(|it| it.label == label && it.phase != Phase::Terminal) {
                return Ok(found.child);
            }
            match page.last() {
                Some(last) if page.len() == items_max => after = Some(last.queue_seq),
                _ => {
                    let reason = format!("no child that has not ended is called `{label}`");
                    return Err(Failure { code: Code::UrmChildNotFound, reason, repeat: Repeat::Never });
                }
            }
        }
    }
}

impl<P: Plane> Adapter for ChildCancelAdapter<P> {
    fn name(&self) -> &str {
        "children"
    }

    fn kinds(&self) -> &[&str] {
        &[CHILD_CANCEL]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.cancel(call))
    }
}
