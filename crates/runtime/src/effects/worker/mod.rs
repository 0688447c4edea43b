//! The adapter worker: claims effects of the kinds that its adapters serve, carries them out, answers.
//!
//! Claims are extended while their calls run. A call that takes longer than its manifest allows is dropped and counts as
//! a failed attempt; one whose claim was lost, or that its world withdrew, is dropped too, and nothing is said. A worker
//! that is asked to stop claims nothing more and finishes what it holds. It also reaps, for its own kinds, the claims of
//! workers that crashed; when it starts, those of its own earlier run at once, if no other process can have made them.
//!
//! A claim whose commit had an unknown result is looked for, and carried out if it is there.

mod attempt;
mod claiming;
mod round;

use super::{
    Adapter, EffectPace, Unpaced,
    attempts::Attempts,
    policy::PolicyContexts,
    signature::AdapterKeys,
    slots::{EffectSlots, RegisteredSlots},
};
use crate::{
    Delivery, LocalWorlds, Plane, RuntimeError,
    metrics::Metrics,
    shell::{Report, Role, Shell, ride_out, wait},
};
use futures_util::{
    FutureExt,
    future::{FusedFuture, poll_fn},
};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorkerId, limits};
use mundi_store::{
    Clock, Entropy, StoreError,
    blob::Blobs,
    keyspace::queue_notify::{self, Seen},
    protocol::KindCap,
};
use round::Round;
use std::{collections::BTreeMap, pin::pin, sync::Arc, task::Poll, time::Duration};

/// How soon a worker looks again when the universe has no room for a kind.
const CAPPED_NAP_NS: u64 = 50_000_000;

#[derive(Debug, Clone)]
pub struct AdapterWorkerConfig {
    /// How long a claim is valid without a heartbeat. Heartbeats come three times as often.
    pub claim_ttl: Duration,
    /// How many calls of one kind run at a time, unless `kind_calls_max` says otherwise.
    pub calls_max: usize,
    pub kind_calls_max: BTreeMap<String, usize>,
    /// The caps of a kind over all worlds and workers of the universe; every worker must be configured the same.
    pub universe_caps: BTreeMap<String, KindCap>,
    /// The keys of adapters in the universe: receipts of these must be signed.
    pub keys: AdapterKeys,
    /// No other living process can have this worker's number: claims under it that are there when the worker starts are those of
    /// a process that is gone.
    pub is_alone: bool,
}

impl Default for AdapterWorkerConfig {
    fn default() -> Self {
        Self {
            claim_ttl: Duration::from_secs(30),
            calls_max: 1_024,
            kind_calls_max: BTreeMap::new(),
            universe_caps: BTreeMap::new(),
            keys: AdapterKeys::default(),
            is_alone: false,
        }
    }
}

/// Serves the effects of a universe.
pub struct AdapterWorker<E, B> {
    engine: E,
    blobs: B,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    universe: UniverseId,
    worker: WorkerId,
    adapters: BTreeMap<String, Arc<dyn Adapter>>,
    config: AdapterWorkerConfig,
    report: Arc<Report>,
    metrics: Arc<Metrics>,
    local: Option<Arc<dyn LocalWorlds>>,
    policies: PolicyContexts,
    attempts: Arc<Attempts>,
    pace: Arc<dyn EffectPace>,
    slots: RegisteredSlots,
}

impl<E: Engine, B: Blobs> AdapterWorker<E, B> {
    pub fn new(
        engine: E,
        blobs: B,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        universe: UniverseId,
        worker: WorkerId,
        config: AdapterWorkerConfig,
    ) -> Self {
        let (adapters, report, metrics) = (BTreeMap::new(), Arc::default(), Arc::default());
        let (local, policies, attempts) = (None, PolicyContexts::default(), Arc::default());
        let (pace, slots) = (Arc::new(Unpaced), RegisteredSlots::default());
        Self {
            engine,
            blobs,
            clock,
            entropy,
            universe,
            worker,
            adapters,
            config,
            report,
            metrics,
            local,
            policies,
            attempts,
            pace,
            slots,
        }
    }

    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Receipts for these worlds are delivered in this process, and their effects start in free slots.
    #[must_use]
    pub fn with_local_worlds(self, local: Arc<dyn LocalWorlds>) -> Self {
        Self { local: Some(local), ..self }
    }

    /// Effects begin as this lets them.
    #[must_use]
    pub fn with_pace(self, pace: Arc<dyn EffectPace>) -> Self {
        Self { pace, ..self }
    }

    /// Counts there.
    #[must_use]
    pub fn with_report(self, report: Arc<Report>) -> Self {
        Self { report, ..self }
    }

    /// Registers its slots there when it begins.
    #[must_use]
    pub fn with_slots(self, slots: RegisteredSlots) -> Self {
        Self { slots, ..self }
    }

    /// Shares the bound on attempts with the other adapter workers of the process.
    #[must_use]
    pub fn with_attempts(self, attempts: Arc<Attempts>) -> Self {
        Self { attempts, ..self }
    }

    /// Serves the kinds of an adapter, in place of one that did before.
    #[expect(clippy::needless_pass_by_value, reason = "it is handed over: callers make it in place")]
    pub fn serve(mut self, adapter: Arc<dyn Adapter>) -> Self {
        for kind in adapter.kinds() {
            self.adapters.insert((*kind).to_owned(), adapter.clone());
        }
        self
    }

    /// Runs until `stop` completes and what is held is finished. An error means that the engine was closed.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let mut stop = pin!(stop.fuse());
        let kinds = self.adapters.keys().map(|kind| (kind.clone(), self.calls_max(kind)));
        let (slots, handovers) =
            EffectSlots::new(self.worker, nanos(self.config.claim_ttl), self.attempts.clone(), kinds);
        *self.slots.lock() = Some(slots.clone());
        let mut troubles = 0;
        // Before any claim of this run can be made.
        while self.config.is_alone && !is_told(&mut stop) {
            match self.release_earlier_claims().await {
                Ok(()) => break,
                Err(error) => ride_out(&*self.clock, error, &mut troubles).await?,
            }
        }
        if let Some(local) = &self.local {
            local.register_slots(self.universe, slots.clone());
        }
        let mut round = Round::new(self, slots, handovers);
        while !(stop.is_terminated() && round.is_over()) {
            match self.turn(&mut round, &mut stop).await {
                Ok(()) => troubles = 0,
                Err(error) => ride_out(&*self.clock, error, &mut troubles).await?,
            }
        }
        Ok(())
    }

    fn delivery(&self) -> Delivery<'_, E, B> {
        Delivery {
            engine: &self.engine,
            clock: &*self.clock,
            blobs: &self.blobs,
            local: self.local.as_deref(),
            dedupe_window_ns: limits::DEDUPE_WINDOW_NS,
        }
    }

    /// One look, then a sleep during which calls continue.
    async fn turn<'a>(
        &'a self,
        round: &mut Round<'a, E, B>,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<(), StoreError> {
        round.ended = false;
        // Checked here, too: a worker that is always busy never sleeps.
        let is_stopping = is_told(stop);
        if is_stopping {
            round.slots.close();
        }
        self.settle_doubts(round).await?;
        if self.clock.now_ns() >= round.upkeep_ns && !(is_stopping && round.calls.is_empty()) {
            self.upkeep(round).await?;
            round.empty.clear(); // what others put off is not counted
        }
        if is_stopping {
            self.drain(round).await;
            return Ok(());
        }
        let seen = round.during(self.seen()).await?; // before the look: what is queued after it wakes the sleep
        self.claim(round, &seen).await?;
        if round.ended {
            return Ok(());
        }
        let mut until_ns = round.empty.values().filter_map(|empty| empty.retry_ns).fold(round.upkeep_ns, u64::min);
        if round.capped {
            until_ns = until_ns.min(self.clock.now_ns().saturating_add(CAPPED_NAP_NS));
        }
        let watches =
            seen.into_iter().map(|(kind, seen)| queue_notify::changed(&self.engine, self.universe, kind, seen).boxed());
        let woken = pin!(wait(&*self.clock, watches.collect(), Some(until_ns), stop));
        round.until_ended_or(woken).await.transpose().map(drop)
    }

    /// Told to stop: waits until all is finished, or for the next upkeep.
    async fn drain(&self, round: &mut Round<'_, E, B>) {
        let nap_ns = round.upkeep_ns.saturating_sub(self.clock.now_ns()).max(CAPPED_NAP_NS);
        let mut nap = self.clock.sleep(Duration::from_nanos(nap_ns));
        poll_fn(|cx| {
            round.poll_calls(cx);
            if round.is_over() { Poll::Ready(()) } else { nap.as_mut().poll(cx) }
        })
        .await;
    }

    async fn seen(&self) -> Result<Vec<(&str, Seen)>, StoreError> {
        let kinds = self.adapters.keys().map(String::as_str);
        queue_notify::read_all(&mut self.engine.begin().await?, self.universe, kinds).await
    }
}

impl<P: Plane> Role<P> for AdapterWorker<P::Engine, P::Blobs> {
    const NAME: &'static str = "adapter";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        Ok(shell.role().run(shell.asked_to_end()).await?)
    }
}

fn is_told(stop: &mut (impl FusedFuture<Output = ()> + Unpin)) -> bool {
    stop.is_terminated() || stop.now_or_never().is_some()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
