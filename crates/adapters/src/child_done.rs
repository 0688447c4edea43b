//! `child.done`: a world that is a child says that it is done.
//!
//! Parameters: `result`, which the parent gets; or `reason` and perhaps `code` of a failure; and perhaps `spent`, all that the child used of the lanes
//! `solver_calls` and `tokens`. Its time is counted from its start. The answer says `outcome` (`passed` or `failed`) and the
//! `code` of a failure: a child that used more than its budget has failed, whatever it says. A world that is no child, or whose child has ended, gets an
//! error; so does a fork of such a world.

use crate::{
    Params,
    params::{map, text},
};
use futures_util::future::BoxFuture;
use mundi_model::{
    Code, Coded, Value, cbor,
    child::{CHILD_DONE, Lane, Spend},
    limits,
};
use mundi_runtime::{
    Plane,
    children::hold_violated,
    effects::{Adapter, Call, invalid, refused},
    metrics::Metrics,
};
use mundi_store::protocol::{ChildFinish, EndWorldChild, Failure, Repeat};
use std::sync::Arc;

pub struct ChildDoneAdapter<P> {
    plane: P,
    metrics: Arc<Metrics>,
}

impl<P: Plane> ChildDoneAdapter<P> {
    /// Counts the children that it ends.
    pub fn new(plane: P, metrics: Arc<Metrics>) -> Self {
        Self { plane, metrics }
    }

    async fn done(&self, call: &Call) -> Result<Value, Failure> {
        let params = Params::of(&call.params)?;
        let end = EndWorldChild {
            universe: call.universe,
            world: call.world,
            intent: call.intent,
            finish: finish(params)?,
            spent: spent(params)?,
            now_ns: self.plane.now_ns(),
        };
        let ended = self.plane.run(&end).await.map(|done| done.output);
        let ended = hold_violated(&self.plane, call.universe, ended).await.map_err(|error| match error.code() {
            code @ Code::UrmChildClaimLost => Failure { code, reason: error.to_string(), repeat: Repeat::Never },
            _ => refused(&error),
        })?;
        self.metrics.children().finished(&ended, end.now_ns);
        let (outcome, code) = (ended.outcome.as_str(), ended.code.map_or(Value::Null, text));
        Ok(map([("outcome", text(outcome)), ("code", code)]))
    }
}

fn finish(params: Params<'_>) -> Result<ChildFinish, Failure> {
    let code = params.text_or_none("code")?;
    match params.text_or_none("reason")? {
        Some(reason) => {
            // A program has codes of its own; those stand in the reason.
            let reason = match code {
                Some(code) => format!("{code}: {reason}"),
                None => reason.to_owned(),
            };
            Ok(ChildFinish::Failed { code: Code::UrmChildFailed, reason })
        }
        None if code.is_some() => Err(invalid("a failure has a `reason`")),
        None => {
            let result = params.get("result").unwrap_or(&Value::Null);
            let (bytes, max) = (cbor::encode(result).len(), limits::CHILD_RESULT_BYTES_MAX);
            if bytes > max {
                return Err(invalid(format!(
                    "the result has {bytes} bytes, at most {max} are allowed; store it as a blob"
                )));
            }
            Ok(ChildFinish::Passed(result.clone()))
        }
    }
}

fn spent(params: Params<'_>) -> Result<Spend, Failure> {
    let Some(spent) = params.get("spent") else { return Ok(Spend::default()) };
    let Value::Map(lanes) = spent else { return Err(invalid("`spent` is a map of lanes")) };
    if let Some(unknown) = lanes.keys().find(|lane| !["solver_calls", "tokens"].contains(&lane.as_str())) {
        return Err(invalid(format!("`{unknown}` is no lane that a child reports")));
    }
    let lanes = Params::of(spent)?;
    let mut spent = Spend::default();
    for lane in [Lane::SolverCalls, Lane::Tokens] {
        spent.set(lane, lanes.unsigned_or_none(lane.as_str())?);
    }
    Ok(spent)
}

impl<P: Plane> Adapter for ChildDoneAdapter<P> {
    fn name(&self) -> &str {
        "children"
    }

    fn kinds(&self) -> &[&str] {
        &[CHILD_DONE]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.done(call))
    }
}
