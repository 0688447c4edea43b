//! The timer worker: fires what is due, then sleeps until the next timer or until one is set.

use crate::{
    Plane, RuntimeError,
    delivery::fire_timers,
    metrics::{Metric, Metrics},
    shell::{Report, Role, Shell, StepSource, Woken, ride_out, wait},
};
use futures_util::{FutureExt, StreamExt, future::FusedFuture, stream};
use mundi_engine::Engine;
use mundi_model::{UniverseId, limits};
use mundi_store::{
    Clock, StoreError,
    keyspace::{
        Shard,
        queue_notify::{self, TIMERS},
    },
    protocol::{FireTimers, Fired, NextTimers},
    run,
};
use std::{pin::pin, sync::Arc};

/// Shards whose timers are fired at the same time.
const SHARDS_AT_ONCE: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct TimerWorkerConfig {
    /// How many one transaction fires.
    pub batch: usize,
    /// How long a fired timer is remembered.
    pub dedupe_window_ns: u64,
}

impl Default for TimerWorkerConfig {
    fn default() -> Self {
        Self { batch: limits::TIMERS_FIRED_MAX, dedupe_window_ns: limits::DEDUPE_WINDOW_NS }
    }
}

/// Fires the timers of a universe. Any number of them may run: each timer fires once.
pub struct TimerWorker<E> {
    engine: E,
    clock: Arc<dyn Clock>,
    universe: UniverseId,
    config: TimerWorkerConfig,
    report: Arc<Report>,
    metrics: Arc<Metrics>,
}

impl<E: Engine> TimerWorker<E> {
    pub fn new(engine: E, clock: Arc<dyn Clock>, universe: UniverseId, config: TimerWorkerConfig) -> Self {
        Self { engine, clock, universe, config, report: Arc::default(), metrics: Arc::default() }
    }

    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Counts there. Latency is how late the latest timer of a batch was.
    #[must_use]
    pub fn with_report(self, report: Arc<Report>) -> Self {
        Self { report, ..self }
    }

    /// Runs until `stop` completes. An error means that the engine was closed.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let mut stop = pin!(stop.fuse());
        let mut troubles = 0;
        while !stop.is_terminated() {
            match self.turn(&mut stop).await {
                Ok(Woken::Stop) => return Ok(()),
                Ok(Woken::Look) => troubles = 0,
                Err(error) => ride_out(&*self.clock, error, &mut troubles).await?,
            }
        }
        Ok(())
    }

    /// Fires everything that is due now.
    pub async fn fire(&self) -> Result<Fired, StoreError> {
        self.fire_due().await.map(|(fired, _)| fired)
    }

    /// Fires what is due, and says when the next one is. A look into all shards at once says which have something.
    async fn fire_due(&self) -> Result<(Fired, Option<u64>), StoreError> {
        let mut all = Fired::default();
        loop {
            let next = run(&self.engine, &*self.clock, &NextTimers { universe: self.universe }).await?.output;
            let now_ns = self.clock.now_ns();
            let due: Vec<Shard> = next.iter().filter(|(_, at_ns)| *at_ns <= now_ns).map(|(shard, _)| *shard).collect();
            if due.is_empty() {
                return Ok((all, next.into_iter().map(|(_, at_ns)| at_ns).min()));
            }
            self.fire_in(due, &mut all).await?;
        }
    }

    /// Fires all that is due in these shards, in several at a time: while one transaction waits for its commit, the next one reads, and their
    /// commits share a sync.
    async fn fire_in(&self, shards: Vec<Shard>, all: &mut Fired) -> Result<(), StoreError> {
        let mut firing = stream::iter(shards).map(|shard| self.fire_shard(shard)).buffer_unordered(SHARDS_AT_ONCE);
        let mut failed = None;
        while let Some(fired) = firing.next().await {
            match fired {
                Ok(fired) => all.add(&fired),
                Err(error) => failed = Some(error), // the other shards finish what they began
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn fire_shard(&self, shard: Shard) -> Result<Fired, StoreError> {
        let mut all = Fired::default();
        loop {
            let fired = self.fire_some(shard).await?;
            all.add(&fired);
            if !fired.more {
                return Ok(all);
            }
        }
    }

    async fn fire_some(&self, shard: Shard) -> Result<Fired, StoreError> {
        let TimerWorkerConfig { batch: items_max, dedupe_window_ns } = self.config;
        let (universe, now_ns) = (self.universe, self.clock.now_ns());
        let fire = FireTimers { universe, shard, items_max, now_ns, dedupe_window_ns };
        let fired = fire_timers(&self.engine, &*self.clock, &fire).await?;
        let tried = (fired.fired + fired.retrying + fired.buried) as u64;
        if tried > 0 {
            self.metrics.add(Metric::TimersFired, fired.fired as u64);
            self.metrics.raise(Metric::TimerLagNsMax, fired.lag_ns_max);
            self.metrics.add(Metric::DeadLetters, fired.buried as u64);
            self.report.count(|counters| {
                counters.attempted(StepSource::Timer, fired.lag_ns_max / 1_000_000);
                counters.timer_attempts += tried - 1;
                counters.successes += fired.fired as u64;
                counters.requeues += fired.retrying as u64;
                counters.dead_letters += fired.buried as u64;
            });
        }
        Ok(fired)
    }

    /// One look, one sleep. The counter is read before the look: what is set after it wakes the sleep.
    async fn turn(&self, stop: &mut (impl FusedFuture<Output = ()> + Unpin)) -> Result<Woken, StoreError> {
        let seen = queue_notify::read(&mut self.engine.begin().await?, self.universe, TIMERS).await?;
        let (fired, next_ns) = self.fire_due().await?;
        if fired != Fired::default() {
            tracing::debug!(?fired, "timers");
        }
        let changed = queue_notify::changed(&self.engine, self.universe, TIMERS, seen);
        wait(&*self.clock, vec![Box::pin(changed)], next_ns, stop).await
    }
}

impl<P: Plane> Role<P> for TimerWorker<P::Engine> {
    const NAME: &'static str = "timer";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        Ok(shell.role().run(shell.asked_to_end()).await?)
    }
}
