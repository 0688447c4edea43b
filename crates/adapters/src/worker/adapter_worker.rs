//! The adapter worker: claims effects of the kinds that its adapters serve, carries them out, answers.
//!
//! Claims are extended while their calls run. A call that takes longer than its manifest allows is dropped and counts as
//! a failed attempt; one whose claim was lost, or that its world withdrew, is dropped too, and nothing is said. A worker
//! that is told to stop claims nothing more and finishes what it holds. It also reaps, for its own kinds, the claims of
//! workers that died; when it starts, those of its own earlier life at once, if nobody else can have made them.
//!
//! A claim whose commit had an unknown fate is looked for, and carried out if it is there.

use super::{EffectPace, Unpaced, ride_out, wait};
use crate::{
    Adapter, Call, denied, failed,
    params::invalid,
    signature::{AdapterKeys, Statement, payload_hash, reason_hash},
    too_large,
};
use futures_channel::mpsc;
use futures_util::{
    FutureExt,
    future::{AbortHandle, Abortable, BoxFuture, Either, FusedFuture, poll_fn, select},
    stream::{FusedStream, FuturesUnordered, StreamExt},
};
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, Hash, UniverseId, Value, WorkerId, cbor, limits,
    record::{Payload, ReceiptStatus},
};
use mundi_runtime::{
    Holder,
    attempts::Attempts,
    hands::{Given, Hand, Hands, InDoubt, InHand, Offer},
    metrics::{Metric, Metrics, Timing},
    policy::{EffectGrant, PolicyContexts},
    shell::{Report, StepSource},
    tell,
};
use mundi_store::{
    Clock, Entropy, StoreError,
    blob::Blobs,
    keyspace::{
        QueueShard, Shard,
        effect_pending::EffectItem,
        queue::QueueSeq,
        queue_notify::{self, Seen},
    },
    protocol::{
        Answer, AnsweredEffect, ClaimEffects, ClaimedEffect, EffectClaim, ExtendClaims, FailEffect, Failed, Failure,
        FindClaims, KindCap, ReapEffects, Reaped, Repeat, ShardsToReap, claim_effects, complete_effect, receipt_of,
    },
    run,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// How soon a worker looks again when the universe has no room for a kind.
const CAPPED_NAP_NS: u64 = 50_000_000;

#[derive(Debug, Clone)]
pub struct AdapterWorkerConfig {
    /// How long a claim lives without a heartbeat. Heartbeats come three times as often.
    pub claim_ttl: Duration,
    /// How many calls of one kind run at a time, unless `kind_calls_max` says otherwise.
    pub calls_max: usize,
    pub kind_calls_max: BTreeMap<String, usize>,
    /// What holds for a kind over all worlds and workers of the universe; every worker must be told the same.
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
    holder: Option<Arc<dyn Holder>>,
    policies: PolicyContexts,
    attempts: Arc<Attempts>,
    pace: Arc<dyn EffectPace>,
}

/// A call that runs.
struct Running {
    claim: EffectClaim,
    kind: String,
    abort: AbortHandle,
}

/// A call is over; perhaps it is to be tried again.
struct Ended {
    seq: QueueSeq,
    again: bool,
}

/// Nothing of a kind was left to claim: there is nothing either until the counter changes, or a retry is due.
struct Empty {
    seen: Seen,
    retry_ns: Option<u64>,
}

/// What the loop keeps between its rounds.
struct Round<'a, E, B> {
    worker: &'a AdapterWorker<E, B>,
    hands: Arc<Hands>,
    /// Effects that worlds of this process put into the hands.
    given: mpsc::UnboundedReceiver<Given>,
    /// Claims of commits whose fate is not known. Bounded by the hands.
    in_doubt: Vec<InDoubt>,
    calls: FuturesUnordered<BoxFuture<'a, Ended>>,
    running: BTreeMap<QueueSeq, Running>,
    /// The kinds of which nothing was left to claim.
    empty: BTreeMap<&'a str, Empty>,
    /// Where something was held since the last upkeep.
    touched: BTreeSet<QueueShard>,
    /// When claims are to be extended and dead ones reaped.
    upkeep_ns: u64,
    /// There is no room for some kind, and nobody says when there is: the whole universe has as many calls as it may, or a
    /// turn has reserved a hand and may not use it.
    capped: bool,
    /// Calls ended while it looked, or the look did not see all: it looks again before it sleeps.
    ended: bool,
    /// The kinds of those that may be tried again: a look that began before does not know when.
    put_off: BTreeSet<String>,
    /// At which kind the next look begins: where the process makes as many attempts as it may, each has its turn.
    first_kind: usize,
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
        let (holder, policies, attempts) = (None, PolicyContexts::default(), Arc::default());
        let pace = Arc::new(Unpaced);
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
            holder,
            policies,
            attempts,
            pace,
        }
    }

    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Tells who holds worlds in this process of their receipts.
    #[must_use]
    pub fn with_holder(self, holder: Arc<dyn Holder>) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// Effects begin as this lets them.
    #[must_use]
    pub fn with_pace(self, pace: Arc<dyn EffectPace>) -> Self {
        Self { pace, ..self }
    }

    /// Counts there, for whoever reads or sinks it.
    #[must_use]
    pub fn with_report(self, report: Arc<Report>) -> Self {
        Self { report, ..self }
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
        let (hands, given) = Hands::new(self.worker, nanos(self.config.claim_ttl), self.attempts.clone(), kinds);
        let mut troubles = 0;
        // Before any claim of this life can be made.
        while self.config.is_alone && !is_told(&mut stop) {
            match self.release_earlier_claims().await {
                Ok(()) => break,
                Err(error) => ride_out(&*self.clock, error, &mut troubles).await?,
            }
        }
        if let Some(holder) = &self.holder {
            holder.employ(self.universe, hands.clone());
        }
        let mut round = Round::new(self, hands, given);
        while !(stop.is_terminated() && round.is_over()) {
            match self.turn(&mut round, &mut stop).await {
                Ok(()) => troubles = 0,
                Err(error) => ride_out(&*self.clock, error, &mut troubles).await?,
            }
        }
        Ok(())
    }

    /// One look, then a sleep during which calls go on.
    async fn turn<'a>(
        &'a self,
        round: &mut Round<'a, E, B>,
        stop: &mut (impl FusedFuture<Output = ()> + Unpin),
    ) -> Result<(), StoreError> {
        round.ended = false;
        // Asked here, too: who always has something to do does not come to the sleep.
        let is_stopping = is_told(stop);
        if is_stopping {
            round.hands.close();
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
            round.note_ended(cx);
            if round.is_over() { Poll::Ready(()) } else { nap.as_mut().poll(cx) }
        })
        .await;
    }

    async fn seen(&self) -> Result<Vec<(&str, Seen)>, StoreError> {
        let kinds = self.adapters.keys().map(String::as_str);
        queue_notify::read_all(&mut self.engine.begin().await?, self.universe, kinds).await
    }

    /// Claims what there is room for, of every kind that may have something.
    async fn claim<'a>(&'a self, round: &mut Round<'a, E, B>, seen: &[(&'a str, Seen)]) -> Result<(), StoreError> {
        round.capped = false;
        let first = round.first_kind.checked_rem(seen.len()).unwrap_or(0);
        round.first_kind = first + 1;
        for (kind, seen) in seen[first..].iter().chain(&seen[..first]) {
            let due = |empty: &Empty| empty.retry_ns.is_some_and(|retry_ns| retry_ns <= self.clock.now_ns());
            if round.empty.get(kind).is_some_and(|empty| empty.seen == *seen && !due(empty)) {
                continue;
            }
            round.empty.remove(kind);
            let is_capped = self.pace.is_limited()
                || self.config.universe_caps.get(*kind).is_some_and(|cap| *cap != KindCap::default());
            round.hands.offer(kind, if is_capped { Offer::None } else { Offer::Surplus }); // what waits must find some
            let room = self.pace.room(round.running.len()).min(limits::CLAIMS_MAX);
            let hands = round.hands.take(kind, room, self.clock.now_ns());
            if hands.is_empty() {
                // A hand that is reserved may get free without a call that ends, and so does the pace.
                round.capped |= room == 0 || round.running_of(kind) < self.calls_max(kind);
                continue;
            }
            let claim = self.claim_of(kind, hands.len());
            round.put_off.remove(*kind);
            let claims = match round.during(claim_effects(&self.engine, &*self.clock, &claim)).await {
                Ok(claims) => claims,
                Err(error) => {
                    let FindClaims { queue_shards, token, .. } = claim.find_again();
                    round.in_doubt.push(InDoubt { queue_shards, token, hands });
                    return Err(error);
                }
            };
            for (effect, hand) in claims.effects.into_iter().zip(hands) {
                round.start(InHand { effect, hand });
            }
            round.capped |= claims.capped;
            round.ended |= claims.more; // look again at once, but at other kinds and other duties, too
            if !claims.capped && !claims.more && !round.put_off.contains(*kind) {
                round.empty.insert(kind, Empty { seen: seen.clone(), retry_ns: claims.next_retry_ns });
                round.hands.offer(kind, if is_capped { Offer::None } else { Offer::All });
            }
        }
        Ok(())
    }

    /// Looks whether commits of unknown fate have claimed something: it is carried out now, and not when the claims have run out.
    async fn settle_doubts<'a>(&'a self, round: &mut Round<'a, E, B>) -> Result<(), StoreError> {
        while let Some(InDoubt { queue_shards, token, hands }) = round.in_doubt.pop() {
            let find = FindClaims { universe: self.universe, queue_shards, token };
            match round.during(run(&self.engine, &*self.clock, &find)).await {
                Ok(found) => {
                    let effects = found.output.into_iter().zip(hands);
                    effects.for_each(|(effect, hand)| round.start(InHand { effect, hand }));
                }
                Err(error) => {
                    round.in_doubt.push(InDoubt { queue_shards: find.queue_shards, token, hands });
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Ends the claims that an earlier process made under this worker's number: each is an attempt that failed.
    async fn release_earlier_claims(&self) -> Result<(), StoreError> {
        let (universe, now_ns, gone) = (self.universe, self.clock.now_ns(), Some(self.worker));
        let (kinds, items_max) = (self.adapters.keys().cloned().collect(), limits::CLAIMS_MAX);
        let look = ShardsToReap { universe, kinds, items_max, now_ns, gone };
        for queue_shard in run(&self.engine, &*self.clock, &look).await?.output {
            let reap = ReapEffects { universe, queue_shard, touched: false, items_max, now_ns, gone };
            loop {
                let reaped = run(&self.engine, &*self.clock, &reap).await?.output;
                self.note_reaped(&reaped);
                if reaped == (Reaped { next_deadline_ns: reaped.next_deadline_ns, ..Reaped::default() }) {
                    break; // what is left is held by others
                }
            }
        }
        Ok(())
    }

    fn note_reaped(&self, reaped: &Reaped) {
        if reaped.retrying + reaped.buried > 0 {
            self.report.count(|counters| {
                counters.requeues += reaped.retrying as u64;
                counters.dead_letters += reaped.buried as u64;
            });
            self.metrics.add(Metric::DeadLetters, reaped.buried as u64);
        }
    }

    /// How many calls of a kind may run.
    fn calls_max(&self, kind: &str) -> usize {
        let named = self.config.kind_calls_max.get(kind).copied();
        named.unwrap_or_else(|| {
            self.adapters.get(kind).map_or(0, |adapter| adapter.calls_max()).min(self.config.calls_max)
        })
    }

    fn claim_of(&self, kind: &str, items_max: usize) -> ClaimEffects {
        let mut token = [0; 16];
        self.entropy.fill(&mut token);
        ClaimEffects {
            universe: self.universe,
            kind: kind.to_owned(),
            worker: self.worker,
            token,
            items_max,
            ttl_ns: nanos(self.config.claim_ttl),
            now_ns: self.clock.now_ns(),
            first: Shard::of(&token),
            cap: self.config.universe_caps.get(kind).copied().unwrap_or_default(),
        }
    }

    /// One attempt, from the claim to the answer. An answer that the store does not take is left to the reaper. Says
    /// whether it may be tried again.
    #[tracing::instrument(name = "effect", skip_all, fields(
        world = %claimed.item.world,
        intent = %claimed.item.intent,
        kind = claimed.item.kind,
        attempt = claimed.claim.attempt,
        trace = claimed.item.trace,
    ))]
    async fn carry_out(&self, adapter: &Arc<dyn Adapter>, claimed: ClaimedEffect, mut hand: Hand) -> bool {
        let started_ns = self.clock.now_ns();
        hand.call_begins();
        let granted = self.check_policy(&claimed).await;
        let must_sign = granted.as_ref().is_ok_and(|grant| grant.signed);
        let attempted = match granted {
            Ok(_) => self.attempt(adapter, &claimed).await,
            Err(failure) => Err(failure),
        };
        let attempted = attempted.and_then(|payload| self.signed(adapter, &claimed, payload, must_sign));
        hand.call_is_over();
        let took_ns = self.clock.now_ns().saturating_sub(started_ns);
        let latency_ms = took_ns / 1_000_000;
        self.metrics.add(Metric::EffectAttempts, 1);
        self.metrics.add(Metric::EffectFailures, u64::from(attempted.is_err()));
        self.metrics.add(Metric::EffectNs, took_ns);
        self.metrics.raise(Metric::EffectNsMax, took_ns);
        self.report.count(|counters| {
            counters.attempted(StepSource::Inbox, latency_ms);
            match &attempted {
                Ok(_) => counters.successes += 1,
                Err(failure) => counters.failed(failure.code, failure.repeat != Repeat::Never),
            }
        });
        let failed = attempted.is_err();
        let settled = match attempted {
            Ok(answer) => self.complete(&claimed, answer).await.map(|()| true),
            Err(failure) => self.fail(adapter, &claimed, failure, must_sign).await,
        };
        match settled {
            Ok(is_terminal) => {
                if is_terminal && claimed.claim.attempt == 1 {
                    let all_ns = self.clock.now_ns().saturating_sub(claimed.item.published_at_ns);
                    self.metrics.observe_ns(Timing::DispatchToReceipt, all_ns.saturating_sub(took_ns));
                }
            }
            Err(error) => {
                let (intent, code) = (claimed.proof.intent, error.code());
                tracing::warn!(%intent, %code, %error, "an effect was carried out and its answer was not taken");
            }
        }
        failed
    }

    /// Whether the manifest that an effect was asked for under allows it, and what it asks for.
    async fn check_policy(&self, claimed: &ClaimedEffect) -> Result<EffectGrant, Failure> {
        let checked = self.policies.check(&self.blobs, self.universe, &claimed.item).await;
        checked.map_err(|error| match error.code() {
            Code::EffectDenied => denied(error.to_string()),
            _ => failed(error.to_string()),
        })
    }

    fn statement<'a>(
        &self,
        adapter: &'a Arc<dyn Adapter>,
        item: &'a EffectItem,
        status: ReceiptStatus,
        payload: Hash,
    ) -> Statement<'a> {
        let (universe, adapter) = (self.universe, adapter.name());
        Statement { universe, world: item.world, intent: item.intent, kind: &item.kind, status, payload, adapter }
    }

    /// An `ok` with the adapter's signature, if it signs; refused if it must and does not.
    fn signed(
        &self,
        adapter: &Arc<dyn Adapter>,
        claimed: &ClaimedEffect,
        payload: Vec<u8>,
        must_sign: bool,
    ) -> Result<Answer, Failure> {
        let payload = Payload::Inline(payload);
        let statement = self.statement(adapter, &claimed.item, ReceiptStatus::Ok, payload_hash(&payload));
        let signature = adapter.sign(&statement.to_bytes());
        self.config.keys.check(&statement, signature.as_deref(), must_sign)?;
        Ok(Answer { signature, ..Answer::new(ReceiptStatus::Ok, payload, adapter.name()) })
    }

    /// In whose name an attempt failed, with the signature. What an adapter that must sign does not sign, the worker says itself.
    fn signed_failure(
        &self,
        adapter: &Arc<dyn Adapter>,
        item: &EffectItem,
        failure: &Failure,
        must_sign: bool,
    ) -> (String, Option<Vec<u8>>) {
        let statement = self.statement(adapter, item, ReceiptStatus::Error, reason_hash(&failure.reason));
        let signature = adapter.sign(&statement.to_bytes());
        match self.config.keys.check(&statement, signature.as_deref(), must_sign) {
            Ok(()) => (adapter.name().to_owned(), signature),
            Err(_) => ("worker".to_owned(), None),
        }
    }

    async fn attempt(&self, adapter: &Arc<dyn Adapter>, claimed: &ClaimedEffect) -> Result<Vec<u8>, Failure> {
        let item = &claimed.item;
        let call = Call {
            universe: self.universe,
            world: item.world,
            intent: item.intent,
            height: item.height,
            asked_at_ns: item.published_at_ns,
            kind: item.kind.clone(),
            params: self.params(&item.params).await?,
            attempt: claimed.claim.attempt,
            trace: item.trace.clone(),
            claim: claimed.proof,
        };
        let timeout_ms = item.terms.timeout_ms;
        match select(adapter.call(&call), self.clock.sleep(Duration::from_millis(timeout_ms))).await {
            Either::Left((answered, _)) => encode(&answered?),
            Either::Right(((), _)) => {
                let reason = format!("no answer within {:?}", Duration::from_millis(timeout_ms));
                Err(Failure { code: Code::EffectTimeout, reason, repeat: Repeat::Backoff })
            }
        }
    }

    async fn params(&self, payload: &Payload) -> Result<Value, Failure> {
        let decode = |bytes: &[u8]| cbor::decode(bytes).map_err(|error| invalid(error.to_string()));
        match payload {
            Payload::Inline(bytes) => decode(bytes),
            Payload::Blob(hash, _) => {
                let bytes = self.blobs.get(self.universe, *hash).await;
                decode(&bytes.map_err(|error| crate::blob::refused(&error))?)
            }
        }
    }

    async fn complete(&self, claimed: &ClaimedEffect, answer: Answer) -> Result<(), StoreError> {
        let status = answer.status;
        let is_small =
            matches!(&answer.payload, Payload::Inline(bytes) if bytes.len() <= limits::PAYLOAD_INLINE_BYTES_MAX);
        if let Some(holder) = self.holder.as_deref().filter(|_| is_small) {
            let receipt = receipt_of(&claimed.item, answer.clone(), self.clock.now_ns());
            if holder.answer(AnsweredEffect { claim: claimed.proof, status }, receipt).await {
                return Ok(());
            }
        }
        let complete =
            async |told| complete_effect(&self.engine, &*self.clock, &self.blobs, claimed, answer, told).await;
        let completed = tell(self.holder.as_deref(), (self.universe, claimed.proof.world), complete).await?;
        tracing::debug!(intent = %claimed.proof.intent, ?completed, "effect");
        Ok(())
    }

    /// Says whether the failure was the last word, and a receipt was made of it.
    async fn fail(
        &self,
        adapter: &Arc<dyn Adapter>,
        claimed: &ClaimedEffect,
        failure: Failure,
        must_sign: bool,
    ) -> Result<bool, StoreError> {
        let claim = claimed.proof;
        let (adapter, signature) = self.signed_failure(adapter, &claimed.item, &failure, must_sign);
        // What is small stands in the queue, and is read there.
        let params = match &claimed.item.params {
            Payload::Blob(..) => self.params(&claimed.item.params).await.ok(),
            Payload::Inline(_) => None,
        };
        let (now_ns, dedupe_window_ns) = (self.clock.now_ns(), limits::DEDUPE_WINDOW_NS);
        let fail = FailEffect { claim, failure, adapter, signature, params, now_ns, dedupe_window_ns };
        let failed = run(&self.engine, &*self.clock, &fail).await?.output;
        if let Failed::Retrying { .. } = failed {
            self.report.count(|counters| counters.requeues += 1);
        }
        tracing::debug!(intent = %claim.intent, code = %fail.failure.code, reason = %fail.failure.reason, ?failed, "effect");
        Ok(matches!(failed, Failed::Answered(_)))
    }

    /// Extends what is held, drops what is not wanted any more, and reaps what others left.
    async fn upkeep(&self, round: &mut Round<'_, E, B>) -> Result<(), StoreError> {
        let now_ns = self.clock.now_ns();
        let ttl_ns = nanos(self.config.claim_ttl);
        let claims: Vec<_> = round.running.values().map(|running| running.claim).collect();
        for claims in claims.chunks(limits::CLAIMS_MAX) {
            let extend = ExtendClaims { claims: claims.to_vec(), deadline_ns: now_ns.saturating_add(ttl_ns) };
            let extended = round.during(run(&self.engine, &*self.clock, &extend)).await?.output;
            for claim in extended.lost.iter().chain(&extended.withdrawn) {
                if let Some(running) = round.running.get(&claim.seq) {
                    running.abort.abort();
                }
            }
        }
        let universe = self.universe;
        let (kinds, items_max) = (self.adapters.keys().cloned().collect(), limits::CLAIMS_MAX);
        let look = ShardsToReap { universe, kinds, items_max, now_ns, gone: None };
        let wanting = round.during(run(&self.engine, &*self.clock, &look)).await?.output;
        let touched = std::mem::take(&mut round.touched);
        let queue_shards: BTreeSet<QueueShard> = wanting.into_iter().chain(touched.iter().copied()).collect();
        for queue_shard in queue_shards {
            let reap = ReapEffects {
                universe,
                queue_shard,
                touched: touched.contains(&queue_shard),
                items_max,
                now_ns,
                gone: None,
            };
            let reaped = round.during(run(&self.engine, &*self.clock, &reap)).await?.output;
            self.note_reaped(&reaped);
        }
        round.upkeep_ns = now_ns.saturating_add(ttl_ns / 3);
        Ok(())
    }
}

impl<'a, E: Engine, B: Blobs> Round<'a, E, B> {
    fn new(worker: &'a AdapterWorker<E, B>, hands: Arc<Hands>, given: mpsc::UnboundedReceiver<Given>) -> Self {
        Self {
            worker,
            hands,
            given,
            in_doubt: Vec::new(),
            calls: FuturesUnordered::new(),
            running: BTreeMap::new(),
            empty: BTreeMap::new(),
            touched: BTreeSet::new(),
            upkeep_ns: 0,
            capped: false,
            ended: false,
            put_off: BTreeSet::new(),
            first_kind: 0,
        }
    }

    /// Whether all that it held is finished, and nothing can arrive any more.
    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.given.is_terminated()
    }

    fn note_held(&self) {
        self.worker.metrics.set(Metric::EffectsInHands, self.running.len() as u64);
        self.worker.pace.running(self.running.len());
    }

    fn running_of(&self, kind: &str) -> usize {
        self.running.values().filter(|running| running.kind == kind).count()
    }

    fn start(&mut self, InHand { effect, hand }: InHand) {
        let worker = self.worker;
        let (seq, claim) = (effect.proof.seq, effect.proof);
        let Some(adapter) = worker.adapters.get(hand.kind()) else { return };
        if effect.claim.attempt == 1 {
            let age_ns = worker.clock.now_ns().saturating_sub(effect.item.published_at_ns);
            worker.metrics.add(Metric::EffectAgeNs, age_ns);
            worker.metrics.raise(Metric::EffectAgeNsMax, age_ns);
        }
        worker.pace.began(1);
        let (abort, registration) = AbortHandle::new_pair();
        self.running.insert(seq, Running { claim, kind: hand.kind().to_owned(), abort });
        self.touched.insert(claim.queue_shard);
        self.note_held();
        let call = Abortable::new(worker.carry_out(adapter, effect, hand), registration);
        self.calls.push(call.map(move |again| Ended { seq, again: again.unwrap_or(true) }).boxed());
    }

    /// Waits for something while calls go on. The more of them end meanwhile, the more the next claim takes at once.
    async fn during<O>(&mut self, other: impl Future<Output = O>) -> O {
        let mut other = pin!(other);
        poll_fn(|cx| {
            self.ended |= self.note_ended(cx);
            other.as_mut().poll(cx)
        })
        .await
    }

    /// The same; `None` once any call is over.
    async fn until_ended_or<O>(&mut self, other: impl Future<Output = O>) -> Option<O> {
        let mut other = pin!(other);
        poll_fn(|cx| if self.note_ended(cx) { Poll::Ready(None) } else { other.as_mut().poll(cx).map(Some) }).await
    }

    /// Lets calls go on, and begins those that were given; says whether one is over for which something may wait.
    fn note_ended(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        loop {
            while let Poll::Ready(Some(given)) = self.given.poll_next_unpin(cx) {
                match given {
                    Given::InHand(given) => self.start(given),
                    Given::InDoubt(doubt) => {
                        self.in_doubt.push(doubt);
                        any = true;
                    }
                }
            }
            let Poll::Ready(Some(Ended { seq, again })) = self.calls.poll_next_unpin(cx) else { break };
            let Some(Running { kind, .. }) = self.running.remove(&seq) else { continue };
            self.note_held();
            if again {
                self.empty.remove(kind.as_str());
                self.put_off.insert(kind.clone());
            }
            any |= !self.empty.contains_key(kind.as_str());
        }
        any
    }
}

fn is_told(stop: &mut (impl FusedFuture<Output = ()> + Unpin)) -> bool {
    stop.is_terminated() || stop.now_or_never().is_some()
}

/// The payload of a receipt, which a program must be able to take in one piece.
fn encode(value: &Value) -> Result<Vec<u8>, Failure> {
    let payload = cbor::encode(value);
    if payload.len() > limits::PAYLOAD_BYTES_MAX { Err(too_large(limits::PAYLOAD_BYTES_MAX)) } else { Ok(payload) }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
