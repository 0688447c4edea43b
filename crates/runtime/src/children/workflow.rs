//! One child from its start to its end, as a task of its own.
//!
//! The start is on record before the work begins, so a crash at any await leaves a child that recovery ends, and none that begins twice.

use super::{
    CallLog, ChildExecutor, ChildKind, ChildReport, ChildRun, Running, WorldOfChild, budget::LeaseMeter,
    hold_on_violation,
};
use crate::{KernelSnapshots, Plane, metrics::Metrics};
use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use mundi_model::{
    Code, Coded, Value,
    child::{ChildSpec, DispatchToken, Spend},
    limits,
    record::Payload,
};
use mundi_store::{
    StoreError,
    protocol::{ChildClaim, ChildFinish, CreateWorld, FinishChild, StartChild, StartWorldChild, start_world_child},
};
use std::{sync::Arc, time::Duration};

/// How long an end that the store does not take is tried again, at first; it doubles.
const RETRY_WAIT: Duration = Duration::from_millis(100);
const RETRIES_MAX: u32 = 8;

impl<P: Plane> ChildExecutor<P> {
    /// Runs a leased child beside the executor.
    pub(super) fn launch(&self, claim: ChildClaim, token: DispatchToken) {
        let Some(kind) = self.kinds.get(&token.kind).cloned() else { return };
        let (abort, aborted) = AbortHandle::new_pair();
        self.running.add(claim, abort);
        let (plane, running, metrics) = (self.plane.clone(), self.running.clone(), self.metrics.clone());
        let workflow = Workflow { plane, claim, kind, running, metrics };
        self.plane.spawner().spawn(Box::pin(async move {
            let child = workflow.claim.child;
            let ended = workflow.run(&token, aborted).await;
            let place = (workflow.claim.universe, workflow.claim.parent);
            match hold_on_violation(&workflow.plane, place, ended).await {
                Err(error) if error.code() == Code::UrmChildClaimLost => {
                    tracing::info!(%child, "a child was ended by someone else");
                }
                Err(error) => tracing::warn!(%child, %error, "a child is left to recovery"),
                Ok(_) => {}
            }
            workflow.running.remove(child);
        }));
    }
}

struct Workflow<P> {
    plane: P,
    claim: ChildClaim,
    kind: Arc<dyn ChildKind>,
    running: Running,
    metrics: Arc<Metrics>,
}

impl<P: Plane> Workflow<P> {
    async fn run(&self, token: &DispatchToken, aborted: AbortRegistration) -> Result<(), StoreError> {
        let spec = match self.spec(token) {
            Ok(spec) => spec,
            Err(reason) => {
                let finish = ChildFinish::Failed { code: Code::UrmChildKindInvalid, reason };
                return self.finish(finish, Spend::default(), None).await;
            }
        };
        let child = WorldOfChild { universe: self.claim.universe, token, params: &spec.params };
        match self.kind.world(&child).await {
            Ok(None) => {}
            Ok(Some(world)) => return self.start_world(*world).await,
            Err(failure) => {
                let finish = ChildFinish::Failed { code: failure.code, reason: failure.reason };
                return self.finish(finish, Spend::default(), None).await;
            }
        }
        let start = StartChild { claim: self.claim, now_ns: self.plane.now_ns() };
        let token = self.plane.run(&start).await?.output;
        let started_at_ns = token.started_at_ns.unwrap_or(start.now_ns);
        let Some(run) = self.run_of(token, spec, started_at_ns) else { return Ok(()) };
        let ChildReport { finish, spent } = match Abortable::new(self.kind.run(&run), aborted).await {
            Ok(report) => report,
            Err(_) => ChildReport { finish: ChildFinish::Cancelled, spent: Spend::default() },
        };
        let spent = spent.lasting(started_at_ns, self.plane.now_ns());
        self.finish(bounded(finish), spent, run.calls.value()).await
    }

    /// Starts a child that goes on by itself.
    async fn start_world(&self, world: CreateWorld) -> Result<(), StoreError> {
        let start = StartWorldChild { claim: self.claim, world, now_ns: self.plane.now_ns() };
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        match start_world_child(engine, clock, blobs, &KernelSnapshots, &start).await {
            Ok(_) => Ok(()),
            Err(StoreError::World(error)) => {
                let finish = ChildFinish::Failed { code: error.code(), reason: error.to_string() };
                self.finish(finish, Spend::default(), None).await
            }
            Err(error) => Err(error),
        }
    }

    fn run_of(&self, token: DispatchToken, spec: ChildSpec, started_at_ns: u64) -> Option<ChildRun> {
        let (Self { plane, claim, .. }, calls) = (self, CallLog::default());
        Some(ChildRun {
            universe: claim.universe,
            parent: claim.parent,
            child: token.child,
            run: token.run?,
            intent: token.intent,
            height: token.parent_seq,
            params: spec.params,
            budget: spec.budget,
            started_at_ns,
            trace: token.trace,
            manifest: token.manifest,
            calls: calls.clone(),
            meter: Arc::new(LeaseMeter {
                plane: plane.clone(),
                claim: *claim,
                started_at_ns,
                calls,
                metrics: self.metrics.clone(),
            }),
        })
    }

    fn spec(&self, token: &DispatchToken) -> Result<ChildSpec, String> {
        let Payload::Inline(params) = &token.params else { return Err("the parameters are too large".to_owned()) };
        let spec = ChildSpec::read(params).map_err(|error| error.to_string())?;
        self.kind.check(&spec.params)?;
        Ok(spec)
    }

    /// Tries again while the store does not answer: the work is done, and only its end is missing.
    async fn finish(&self, finish: ChildFinish, spent: Spend, calls: Option<Value>) -> Result<(), StoreError> {
        let finish = FinishChild { claim: self.claim, finish, spent, calls, now_ns: self.plane.now_ns() };
        let mut tries = 0;
        loop {
            match self.plane.run(&finish).await {
                Ok(done) => {
                    self.metrics.children().finished(&done.output, finish.now_ns);
                    return Ok(());
                }
                Err(error) if tries < RETRIES_MAX && crate::RuntimeError::from(error.clone()).is_transient() => {
                    self.plane.clock().sleep(RETRY_WAIT * (1 << tries)).await;
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A result that does not fit into the parent's inbox is a failure.
pub(crate) fn bounded(finish: ChildFinish) -> ChildFinish {
    match finish {
        ChildFinish::Passed(result) => {
            let bytes = mundi_model::cbor::encode(&result).len();
            if bytes <= limits::CHILD_RESULT_BYTES_MAX {
                return ChildFinish::Passed(result);
            }
            let max = limits::CHILD_RESULT_BYTES_MAX;
            let reason = format!("the result has {bytes} bytes, at most {max} are allowed; store it as a blob");
            ChildFinish::Failed { code: Code::EffectAnswerTooLarge, reason }
        }
        other => other,
    }
}
