//! The sweeper: removes unreferenced objects. It is part of the role `orchestrator`.
//!
//! It keeps nothing between two passes. What a run has found and decided is in the engine, so it may crash at any await, and may
//! run in several processes: one of them carries a run on, the others wait.

use crate::{
    Plane, RuntimeError, Services,
    metrics::{Metric, Metrics},
    shell::{Role, Shell},
};
use futures_util::future::{Either, select};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId};
use mundi_store::{
    StoreError,
    blobs::Cas,
    keyspace::sweep_state::{self, SweepState},
    reachability::{SweepConfig, SweepReport, Swept, sweep},
    segments::SegmentStore,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// The pause after a run that failed.
const RETRY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub struct SweeperConfig {
    pub universe: UniverseId,
    /// In whose name runs are carried on: a process that comes back under the same one takes its own up at once.
    pub worker: WorkerId,
    /// From the end of a run to the beginning of the next one. `None` for runs only when an operator asks.
    pub interval: Option<Duration>,
    pub sweep: SweepConfig,
}

/// The plane of a process that has the content store itself, not only a way to put and get.
pub type SweepPlane<E> = Services<E, Cas<E>, SegmentStore<E>>;

/// Sweeps a universe, again and again.
pub struct Sweeper<E: Engine> {
    plane: SweepPlane<E>,
    config: SweeperConfig,
    metrics: Arc<Metrics>,
}

impl<E: Engine> Role<SweepPlane<E>> for Sweeper<E> {
    const NAME: &'static str = "sweeper";

    async fn run(shell: &Shell<SweepPlane<E>, Self>) -> Result<(), RuntimeError> {
        shell.until_asked(shell.role().sweep()).await;
        Ok(())
    }
}

impl<E: Engine> Sweeper<E> {
    pub fn new(plane: SweepPlane<E>, config: SweeperConfig, metrics: Arc<Metrics>) -> Self {
        Self { plane, config, metrics }
    }

    /// Sweeps whenever it is time.
    async fn sweep(&self) {
        let started_ns = self.plane.now_ns();
        loop {
            let waited = match self.look().await {
                Ok(state) => match self.due_ns(&state, started_ns) {
                    Some(due_ns) if due_ns <= self.plane.now_ns() => self.run().await,
                    due_ns => {
                        self.wait(&state, due_ns).await;
                        Ok(())
                    }
                },
                Err(error) => Err(error),
            };
            if let Err(error) = waited {
                tracing::warn!(%error, universe = %self.config.universe, "a sweep failed and will be retried");
                self.metrics.add(Metric::SweepFailures, 1);
                self.plane.clock().sleep(RETRY).await;
            }
        }
    }

    /// One run, whether it is time or not; how it went is in the metrics.
    pub async fn run(&self) -> Result<(), StoreError> {
        let SweeperConfig { universe, worker, .. } = self.config;
        let began_ns = self.plane.now_ns();
        match sweep(&self.plane.blobs, universe, worker, &self.config.sweep).await? {
            Swept::Done(report) => {
                self.count(&report, began_ns);
                Ok(())
            }
            Swept::Made => Ok(()),
            Swept::Busy { holder, until_ns } => {
                tracing::debug!(%universe, %holder, "another process sweeps");
                let state = self.look().await?;
                self.wait(&state, Some(until_ns)).await;
                Ok(())
            }
        }
    }

    async fn look(&self) -> Result<SweepState, StoreError> {
        sweep_state::read(&mut self.plane.engine().begin().await?, self.config.universe).await
    }

    /// When the next run begins; `None` if only an operator or another process can bring one about.
    fn due_ns(&self, state: &SweepState, started_ns: u64) -> Option<u64> {
        if let Some(running) = &state.running {
            return Some(if running.holder == self.config.worker { 0 } else { running.until_ns });
        }
        if state.requested.is_some() {
            return Some(0);
        }
        let since_ns = state.swept_at_ns.unwrap_or(started_ns);
        let interval = self.config.interval?;
        Some(since_ns.saturating_add(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Until it is time, or the state changes: a run is asked for, or another process continued or ended.
    async fn wait(&self, state: &SweepState, due_ns: Option<u64>) {
        let left_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(self.plane.now_ns()));
        let time = self.plane.clock().sleep(Duration::from_nanos(left_ns).min(WAIT_MAX));
        let key = sweep_state::key(self.config.universe);
        let seen = (*state != SweepState::default()).then(|| mundi_model::cbor::encode(state).into());
        let changed = pin!(self.plane.engine().watch(key.as_bytes(), seen));
        if let Either::Left((Err(_), time)) = select(changed, time).await {
            time.await; // a watch that failed must not make it look without end
        }
    }

    fn count(&self, report: &SweepReport, began_ns: u64) {
        let metrics = &self.metrics;
        let took_ns = self.plane.now_ns().saturating_sub(began_ns);
        metrics.add(Metric::Sweeps, 1);
        metrics.add(Metric::SweepKeys, report.keys);
        metrics.add(Metric::SweepNs, took_ns);
        if !report.dry_run {
            metrics.add(Metric::SweepObjectsCondemned, report.condemned as u64);
            metrics.add(Metric::SweepObjectsRemoved, report.removed.len() as u64);
            metrics.add(Metric::SweepBytesRemoved, report.removed_bytes);
            metrics.add(Metric::SweepSegmentsRemoved, report.segments as u64);
        }
        let gone_bytes = if report.dry_run { 0 } else { report.removed_bytes };
        metrics.set(Metric::UnreachableBytes, report.unreachable_bytes.saturating_sub(gone_bytes));
        tracing::info!(
            universe = %self.config.universe,
            worlds = report.worlds,
            objects = report.objects,
            condemned = report.condemned,
            removed = report.removed.len(),
            removed_bytes = report.removed_bytes,
            segments = report.segments,
            dry_run = report.dry_run,
            took_ms = took_ns / 1_000_000,
            "a sweep ended"
        );
    }
}

/// Beyond this it looks again, so that a lost notification delays a run by no more.
const WAIT_MAX: Duration = Duration::from_secs(600);
