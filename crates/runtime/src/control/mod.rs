//! The operations on worlds, for operators and other layers. One file per noun.
//!
//! All calls are idempotent and return typed errors; the server puts HTTP on it. What only reads takes no lease and stops
//! no world; what must write to a world that a worker holds is asked of that worker, or done under a lease that is taken over from it.
//! Either way a call answers when it is done, from whatever process.

mod budgets;
mod cells;
mod children;
mod dead_letters;
mod effects;
mod failing_queries;
mod follow;
mod ingress;
mod leases;
mod naming;
mod pool_watch;
mod pools;
mod queues;
mod rehearse;
mod snapshots;
mod sorted_effects;
mod step;
mod tasks;
mod timers;
mod verify;
mod why;
mod workers;
mod worlds;

pub use budgets::{Budgets, SpentAttempts, SpentBudget};
pub use cells::{At, CellDifference};
pub use children::ClientRequest;
pub use effects::{EffectEnd, EffectName, FoundEffect, HandAnswer, JournaledEffect};
pub use follow::{
    ChangesSince, SeenHead, SeenQuotas, SeenUniverse, UniverseChange, engine_answers, quotas_changed, read_token,
    seen_quotas, token_revoked,
};
pub use ingress::{BegunCall, CallAnswer, CallRequest, NoForward, SendAnswer, SendRequest};
pub use naming::is_name_taken;
pub(crate) use naming::short_id;
pub use pools::{Pool, shard_of};
pub use rehearse::{DivergingFunction, RehearseRequest, Rehearsed};
pub use sorted_effects::{EffectOrder, SortPlace, SortedEffects};
pub use step::{PastStep, StepQuestion};
pub use verify::WorldProof;
pub(crate) use verify::snapshots_of;
pub use why::{Cause, Why};
pub use workers::Waits;
pub use worlds::Repaired;

pub use crate::delivery::Forward;

use crate::{
    Plane,
    calls::Calls,
    delivery::{Delivery, LocalWorlds},
    lifecycle::checkpoints::Checkpoints,
    metrics::Metrics,
    worker::WorldWorker,
};
use failing_queries::FailingQueries;
use mundi_model::{UniverseId, limits};
use std::sync::Arc;

/// Control over one universe. Cheap to clone if the plane is.
#[derive(Clone)]
pub struct Ops<P: Plane> {
    plane: P,
    universe: UniverseId,
    calls: Calls,
    worker: Option<WorldWorker<P>>,
    dedupe_window_ns: u64,
    failing_queries: FailingQueries,
    checkpoints: Checkpoints,
    metrics: Arc<Metrics>,
    budgets: Option<Arc<dyn Budgets>>,
}

impl<P: Plane> Ops<P> {
    /// `calls` is shared with the world workers of this process, if there are any.
    pub fn new(plane: P, universe: UniverseId, calls: Calls) -> Self {
        Self {
            plane,
            universe,
            calls,
            worker: None,
            dedupe_window_ns: limits::DEDUPE_WINDOW_NS,
            failing_queries: FailingQueries::default(),
            checkpoints: Checkpoints::default(),
            metrics: Arc::default(),
            budgets: None,
        }
    }

    /// Names these budgets where they keep a world back.
    #[must_use]
    pub fn with_budgets(self, budgets: Arc<dyn Budgets>) -> Self {
        Self { budgets: Some(budgets), ..self }
    }

    fn budgets(&self) -> Option<&dyn Budgets> {
        self.budgets.as_deref()
    }

    /// Counts what it ends in these metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// How long an idempotency key is remembered.
    #[must_use]
    pub fn with_dedupe_window_ns(self, dedupe_window_ns: u64) -> Self {
        Self { dedupe_window_ns, ..self }
    }

    pub fn dedupe_window_ns(&self) -> u64 {
        self.dedupe_window_ns
    }

    /// Items for worlds that this worker holds, or may take, are delivered in this process.
    pub fn beside(self, worker: WorldWorker<P>) -> Self {
        Self { worker: Some(worker), ..self }
    }

    fn delivery(&self) -> Delivery<'_, P::Engine, P::Blobs> {
        Delivery {
            engine: self.plane.engine(),
            clock: &**self.plane.clock(),
            blobs: self.plane.blobs(),
            local: self.worker.as_ref().map(|worker| worker as &dyn LocalWorlds),
            dedupe_window_ns: self.dedupe_window_ns,
        }
    }

    pub fn universe(&self) -> UniverseId {
        self.universe
    }
}
