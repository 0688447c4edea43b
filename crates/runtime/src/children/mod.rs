//! Children: the role that dispatches them, runs those of the kinds that this process serves, and recovers those whose executors are gone.
//!
//! - `dispatch`: which child is leased next, and what becomes of one that nobody can run.
//! - `workflow`: one child from its start to its end.
//! - `recovery`: children whose executors are gone.
//! - `budget`: what is debited for a child.
//! - `outside`: calls to the outside that a run makes itself.
//!
//! The state of the role is one value, `Running`, which is handed to each of them. What decides about a child is in the store: the
//! role only acts on it. So any number of executors may run, and one that crashes leaves nothing but leases that run out.

mod budget;
mod calls;
mod counts;
mod dispatch;
mod kinds;
mod outside;
mod recovery;
mod workflow;

pub use budget::{Meter, RefusedDebit};
pub use calls::CallLog;
pub use counts::{ChildCounts, ChildDepth};
pub use dispatch::{cancel_all, cancel_before};
pub use kinds::{ChildKind, ChildReport, ChildRun, EXTERNAL, WorldOfChild, is_external};
pub use outside::{MadeCall, OutsideCalls, RunCalls};
pub use recovery::{hold_on_violation, hold_violated, recover_parent, recover_universe};
pub(crate) use workflow::bounded;

use crate::{
    Plane, RuntimeError,
    metrics::Metrics,
    shell::{Role, Shell, ride_out, wait},
};
use futures_util::{
    FutureExt,
    future::{AbortHandle, FusedFuture},
};
use mundi_model::{
    UniverseId, WorkerId, WorldId,
    child::{CHILD_SPAWN, ChildId},
    limits,
};
use mundi_store::{
    StoreError,
    keyspace::{child_work::ChildWork, queue_notify},
    protocol::{ChildClaim, ExtendChildLeases, LeaseHeld, ListChildParents},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, pin::pin, sync::Arc};

#[derive(Debug, Clone, Copy)]
pub struct ChildExecutorConfig {
    /// How long a lease is valid without an extension. Extensions come three times as often.
    pub lease_ns: u64,
    /// How many children run at a time in this process.
    pub children_max: usize,
    /// No other living process can have this worker's number.
    pub is_alone: bool,
}

impl Default for ChildExecutorConfig {
    fn default() -> Self {
        Self { lease_ns: limits::CHILD_LEASE_NS, children_max: 256, is_alone: false }
    }
}

/// The children that this process runs.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<BTreeMap<ChildId, RunningChild>>>);

pub(crate) struct RunningChild {
    claim: ChildClaim,
    abort: AbortHandle,
}

impl Running {
    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn add(&self, claim: ChildClaim, abort: AbortHandle) {
        self.0.lock().insert(claim.child, RunningChild { claim, abort });
    }

    fn remove(&self, child: ChildId) {
        self.0.lock().remove(&child);
    }

    /// Stops the work of a child. What follows is decided by its workflow.
    fn abort(&self, child: ChildId) {
        if let Some(running) = self.0.lock().get(&child) {
            running.abort.abort();
        }
    }

    /// The children by parent, with the tokens of their leases.
    fn by_parent(&self) -> BTreeMap<WorldId, Vec<(ChildId, [u8; 16])>> {
        let mut parents = BTreeMap::<_, Vec<_>>::new();
        for RunningChild { claim, .. } in self.0.lock().values() {
            parents.entry(claim.parent).or_default().push((claim.child, claim.token));
        }
        parents
    }
}

/// Dispatches and runs the children of a universe.
pub struct ChildExecutor<P> {
    plane: P,
    universe: UniverseId,
    worker: WorkerId,
    config: ChildExecutorConfig,
    kinds: BTreeMap<String, Arc<dyn ChildKind>>,
    running: Running,
    metrics: Arc<Metrics>,
}

impl<P: Plane> ChildExecutor<P> {
    pub fn new(plane: P, universe: UniverseId, worker: WorkerId, config: ChildExecutorConfig) -> Self {
        let (kinds, running, metrics) = (BTreeMap::new(), Running::default(), Arc::default());
        Self { plane, universe, worker, config, kinds, running, metrics }
    }

    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Runs children of a kind.
    #[must_use]
    pub fn serve(mut self, kind: Arc<dyn ChildKind>) -> Self {
        let name = kind.kind().to_owned();
        self.kinds.insert(name, kind);
        self
    }

    /// Ends the children of an earlier life of this worker. To be called before the process accepts new spawns.
    pub async fn recover_earlier(&self) -> Result<(), RuntimeError> {
        let gone = self.config.is_alone.then_some(self.worker);
        Ok(recover_universe(&self.plane, self.universe, gone, self.metrics.children()).await?)
    }

    /// Runs until `stop` completes and the children that run here have ended.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let mut stop = pin!(stop.fuse());
        let (mut troubles, mut rounds) = (0, Rounds::default());
        while !(stop.is_terminated() && self.running.len() == 0) {
            match self.turn(&mut rounds, &mut stop).await {
                Ok(()) => troubles = 0,
                Err(error) => ride_out(&**self.plane.clock(), error, &mut troubles).await?,
            }
        }
        Ok(())
    }

    /// One look at what changed, one sleep. The counter is read before the look: what changes after it wakes the sleep.
    async fn turn(
        &self,
        rounds: &mut Rounds,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<(), StoreError> {
        use mundi_engine::Engine;
        let engine = self.plane.engine();
        let seen = queue_notify::read(&mut engine.begin().await?, self.universe, CHILD_SPAWN).await?;
        self.extend_due(rounds).await?;
        let is_stopping = stop.is_terminated() || stop.now_or_never().is_some();
        let orphaned_ns = self.look(rounds, is_stopping).await?;
        let extend_ns = (self.running.len() > 0).then_some(rounds.extend_at_ns);
        let until_ns = [orphaned_ns, extend_ns].into_iter().flatten().min();
        let changed = queue_notify::changed(engine, self.universe, CHILD_SPAWN, seen);
        if is_stopping {
            // A child ends by itself or is cancelled: both change the counter.
            let mut never = std::future::pending().fuse();
            return wait(&**self.plane.clock(), vec![Box::pin(changed)], until_ns, &mut never).await.map(drop);
        }
        wait(&**self.plane.clock(), vec![Box::pin(changed)], until_ns, stop).await.map(drop)
    }

    /// Looks after every parent that has something to be looked after, and passes over all others by what their rows say; says when the
    /// next lease runs out.
    async fn look(&self, rounds: &mut Rounds, is_stopping: bool) -> Result<Option<u64>, StoreError> {
        let (mut after, mut next_ns, mut depth) = (None, None::<u64>, ChildDepth::default());
        let (mut held, mut left) = (self.running.by_parent(), BTreeMap::new());
        loop {
            let page = self.plane.run(&ListChildParents { universe: self.universe, after }).await?.output;
            for (parent, work) in &page {
                if let Some(held) = held.remove(parent)
                    && (work.cancelling || work.active < held.len() as u64)
                {
                    self.extend(*parent, held).await?;
                }
                let (mut queued, mut active, mut deadline_ns) = (work.queued, work.active, work.deadline_ns);
                if !is_stopping && self.concerns(*parent, work, rounds) {
                    let looked = self.look_at(*parent, work).await;
                    let Some(looked) = hold_on_violation(&self.plane, (self.universe, *parent), looked).await? else {
                        continue;
                    };
                    (queued, active) = (looked.state.queued, looked.state.active.len() as u64);
                    deadline_ns = looked.state.active.iter().filter_map(|active| active.lease.deadline_ns).min();
                    if looked.is_for_others && work.version > 0 {
                        left.insert(*parent, work.version);
                    }
                } else if rounds.left.get(parent) == Some(&work.version) {
                    left.insert(*parent, work.version);
                }
                depth.queued += queued;
                depth.active += active;
                next_ns = [next_ns, deadline_ns.filter(|_| !is_stopping)].into_iter().flatten().min();
            }
            match page.last() {
                Some((last, _)) if page.len() == limits::CHILD_PARENTS_PAGE => after = Some(*last),
                _ => break,
            }
        }
        // Parents that have no children any more, or are gone.
        for (parent, held) in held {
            self.extend(parent, held).await?;
        }
        rounds.left = left;
        self.metrics.children().note_depth(self.universe, depth);
        Ok(next_ns)
    }

    /// Whether this executor may have something to do for a parent.
    fn concerns(&self, parent: WorldId, work: &ChildWork, rounds: &Rounds) -> bool {
        let is_left = rounds.left.get(&parent) == Some(&work.version);
        work.is_orphaned(self.plane.now_ns()) || !work.blocked && !is_left
    }

    /// Extends the leases of what runs here when it is time, and stops what was cancelled or lost.
    async fn extend_due(&self, rounds: &mut Rounds) -> Result<(), StoreError> {
        let (now_ns, every_ns) = (self.plane.now_ns(), self.config.lease_ns / 3);
        // A clock that went back must not put an extension off.
        if now_ns < rounds.extend_at_ns && rounds.extend_at_ns - now_ns <= every_ns {
            return Ok(());
        }
        for (parent, held) in self.running.by_parent() {
            self.extend(parent, held).await?;
        }
        rounds.extend_at_ns = now_ns.saturating_add(every_ns);
        Ok(())
    }

    async fn extend(&self, parent: WorldId, held: Vec<(ChildId, [u8; 16])>) -> Result<(), StoreError> {
        let until_ns = self.plane.now_ns().saturating_add(self.config.lease_ns);
        let children: Vec<_> = held.iter().map(|(child, _)| *child).collect();
        let extend = ExtendChildLeases { universe: self.universe, parent, held, until_ns };
        let found = self.plane.run(&extend).await.map(|done| done.output);
        let found = hold_on_violation(&self.plane, (self.universe, parent), found).await?.unwrap_or_default();
        for (child, held) in children.into_iter().zip(found) {
            if held != LeaseHeld::Held {
                self.running.abort(child);
            }
        }
        Ok(())
    }
}

/// The state of an executor between two looks.
#[derive(Default)]
struct Rounds {
    extend_at_ns: u64,
    /// Parents whose first child in the queue is for another executor, and the version of their row that said so.
    left: BTreeMap<WorldId, u64>,
}

impl<P: Plane> Role<P> for ChildExecutor<P> {
    const NAME: &'static str = "children";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        Ok(shell.role().run(shell.asked_to_end()).await?)
    }
}
