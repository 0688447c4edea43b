//! Calls to the outside that a run makes itself, in its parent's name.
//!
//! The parent's manifest decides: its rule of the kind says whether the effect is allowed, which parameters it takes, how long an attempt lasts and how
//! often it is tried. Each call carries the idempotency key of (run, n), the same for every attempt. Nothing of it is a record of the parent.
//! Calls of one kind begin no more often than the rule's `rate` allows, counted per run. Each attempt counts against the bounds of the process, the quotas of
//! the universe and the limits of its kind, as an attempt at an effect does, and waits until they allow it. The limits of a kind over all processes of the
//! universe are kept for the calls of this process only.

use super::ChildRun;
use crate::{
    Plane,
    effects::{
        Adapter, AdapterWorkerConfig, Call, EffectPace, Unpaced, attempts::Attempts, denied, effect_terms, invalid,
        refused,
    },
    manifests::{in_time, load_manifest, newest_manifest},
};
use futures_util::future::{Either, select};
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{Code, IntentHash, Stamp, Value, cbor};
use mundi_store::{
    keyspace::{effect_pending::EffectTerms, queue::QueueSeq},
    protocol::{EffectClaim, Failure, Repeat, next_attempt_ms},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const SECOND_NS: u64 = 1_000_000_000;

/// How soon an attempt asks again that a bound keeps waiting.
const CAPPED_NAP: Duration = Duration::from_millis(50);

/// The adapters that runs may use: those that need no claim on an effect.
pub struct OutsideCalls<P> {
    plane: P,
    adapters: BTreeMap<String, Arc<dyn Adapter>>,
    attempts: Arc<Attempts>,
    pace: Arc<dyn EffectPace>,
    config: AdapterWorkerConfig,
    kinds: Mutex<BTreeMap<String, OfKind>>,
}

/// The calls of one kind, of all runs in this process.
#[derive(Default)]
struct OfKind {
    running: usize,
    /// When the next one may begin, if the kind has a rate.
    begins_ns: u64,
}

/// An attempt that may be made. It counts until this is dropped.
struct Begun<'a, P> {
    outside: &'a OutsideCalls<P>,
    kind: &'a str,
}

impl<P> Drop for Begun<'_, P> {
    fn drop(&mut self) {
        self.outside.attempts.end(true);
        self.outside.pace.end_call();
        if let Some(kind) = self.outside.kinds.lock().get_mut(self.kind) {
            kind.running -= 1;
        }
    }
}

impl<P: Plane> OutsideCalls<P> {
    pub fn new(plane: P) -> Self {
        let (adapters, kinds) = (BTreeMap::new(), Mutex::default());
        let (attempts, pace, config) = (Arc::default(), Arc::new(Unpaced), AdapterWorkerConfig::default());
        Self { plane, adapters, attempts, pace, config, kinds }
    }

    /// Shares the bound on attempts with the adapter workers of the process.
    #[must_use]
    pub fn with_attempts(self, attempts: Arc<Attempts>) -> Self {
        Self { attempts, ..self }
    }

    /// Attempts begin as this lets them.
    #[must_use]
    pub fn with_pace(self, pace: Arc<dyn EffectPace>) -> Self {
        Self { pace, ..self }
    }

    /// The limits of kinds, as the worker of effects has them.
    #[must_use]
    pub fn with_limits(self, config: AdapterWorkerConfig) -> Self {
        Self { config, ..self }
    }

    /// Begins an attempt, if all bounds have room for it.
    fn begin<'a>(&'a self, kind: &'a str) -> Option<Begun<'a, P>> {
        let now_ns = self.plane.now_ns();
        let cap = self.config.universe_caps.get(kind).copied().unwrap_or_default();
        let own_max = self.adapters.get(kind).map_or(0, |adapter| adapter.calls_max()).min(self.config.calls_max);
        let calls_max = self.config.kind_calls_max.get(kind).copied().unwrap_or(own_max);
        let calls_max = calls_max.min(cap.calls_max.unwrap_or(usize::MAX));
        let mut kinds = self.kinds.lock();
        let of_kind = kinds.entry(kind.to_owned()).or_default();
        if of_kind.running >= calls_max || of_kind.begins_ns > now_ns || !self.pace.begin_call() {
            return None;
        }
        if self.attempts.admit(1, now_ns) == 0 {
            self.pace.end_call();
            return None;
        }
        self.pace.began(1);
        of_kind.running += 1;
        if let Some(rate) = cap.rate {
            of_kind.begins_ns = now_ns.saturating_add(SECOND_NS / u64::from(rate.per_second.max(1)));
        }
        Some(Begun { outside: self, kind })
    }

    /// Waits until an attempt may begin.
    async fn begun<'a>(&'a self, kind: &'a str) -> Begun<'a, P> {
        loop {
            match self.begin(kind) {
                Some(begun) => return begun,
                None => self.plane.clock().sleep(CAPPED_NAP).await,
            }
        }
    }

    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "as the worker of effects takes its adapters")]
    pub fn serve(mut self, adapter: Arc<dyn Adapter>) -> Self {
        for kind in adapter.kinds() {
            self.adapters.insert((*kind).to_owned(), adapter.clone());
        }
        self
    }

    pub fn serves(&self, kind: &str) -> bool {
        self.adapters.contains_key(kind)
    }

    pub fn plane(&self) -> &P {
        &self.plane
    }

    /// The calls of one run, under the manifest that was current when it was spawned.
    pub async fn of_run<'a>(&'a self, run: &'a ChildRun) -> Result<RunCalls<'a, P>, Failure> {
        let place = (run.universe, run.parent);
        let manifest = match run.manifest {
            Some(manifest) => load_manifest(&self.plane, place, manifest).await.map(Some),
            None => newest_manifest(&self.plane, place).await,
        };
        let manifest =
            manifest.map_err(|error| refused(&error))?.ok_or_else(|| denied("the parent has no manifest"))?;
        Ok(RunCalls { outside: self, run, manifest, made: Vec::new(), begins_ns: BTreeMap::new() })
    }
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCall {
    pub n: u64,
    pub kind: String,
    pub key: IntentHash,
    /// Why it failed, if it did.
    pub code: Option<Code>,
}

/// The calls of one run.
pub struct RunCalls<'a, P> {
    outside: &'a OutsideCalls<P>,
    run: &'a ChildRun,
    manifest: Arc<CompiledManifest>,
    made: Vec<MadeCall>,
    /// When the next call of a kind that has a rate may begin.
    begins_ns: BTreeMap<String, u64>,
}

impl<P: Plane> RunCalls<'_, P> {
    /// All calls so far, in order.
    pub fn made(&self) -> &[MadeCall] {
        &self.made
    }

    /// Makes a call, perhaps several times under the same key.
    pub async fn call(&mut self, kind: &str, params: Value) -> Result<Value, Failure> {
        let n = self.made.len() as u64 + 1;
        let key = self.run.run.call_key(n);
        let answer = self.attempts(kind, params, key).await;
        let code = answer.as_ref().err().map(|failure| failure.code);
        let (child, run) = (self.run.child, self.run.run);
        tracing::debug!(%child, %run, n, kind, %key, code = code.map(Code::as_str), "a run called the outside");
        self.made.push(MadeCall { n, kind: kind.to_owned(), key, code });
        answer
    }

    async fn attempts(&mut self, kind: &str, params: Value, key: IntentHash) -> Result<Value, Failure> {
        let (adapter, terms) = self.allowed(kind, &params).await?;
        let clock = self.outside.plane.clock();
        let mut call = self.first_attempt(kind, params, (key, terms.timeout_ms));
        loop {
            self.keep_rate(kind, &terms).await;
            let begun = self.outside.begun(kind).await;
            let timeout = clock.sleep(Duration::from_millis(terms.timeout_ms));
            let failure = match select(adapter.call(&call), timeout).await {
                Either::Left((Ok(answer), _)) => return Ok(answer),
                Either::Left((Err(failure), _)) => failure,
                Either::Right(_) => {
                    let reason = format!("no answer within {} ms", terms.timeout_ms);
                    Failure { code: Code::EffectTimeout, reason, repeat: Repeat::Backoff }
                }
            };
            drop(begun); // a call that waits for its next attempt takes no place
            let Some(wait_ms) = next_attempt_ms(&terms, call.attempt, failure.repeat) else { return Err(failure) };
            call.attempt += 1;
            clock.sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    async fn allowed(&self, kind: &str, params: &Value) -> Result<(Arc<dyn Adapter>, EffectTerms), Failure> {
        let adapter = self.outside.adapters.get(kind);
        let adapter = adapter.ok_or_else(|| denied(format!("a child may not carry out `{kind}` itself")))?;
        let encoded = cbor::encode(params);
        if let Err(error) = in_time(&self.outside.plane, || self.manifest.check_params(kind, &encoded)).await {
            return Err(Failure { code: error.code_or(Code::EffectDenied), ..denied(error.to_string()) });
        }
        if matches!(params, Value::Map(fields) if fields.contains_key("lease")) {
            return Err(invalid("a child's own calls carry no lease of a pool"));
        }
        let rule = self.manifest.manifest.effects.get(kind);
        if rule.is_some_and(|rule| rule.signed) {
            return Err(denied(format!(
                "the manifest wants signed receipts of `{kind}`, and a child's own calls have none"
            )));
        }
        let policies = self.manifest.manifest.effect_policies(kind);
        Ok((adapter.clone(), effect_terms(&policies, self.outside.plane.retry())))
    }

    fn first_attempt(&self, kind: &str, params: Value, (key, timeout_ms): (IntentHash, u64)) -> Call {
        let ChildRun { universe, parent, .. } = *self.run;
        // Of no queue item: no transaction finds it held.
        let claim = EffectClaim::of(universe, kind, QueueSeq::new(Stamp::new(0, 0), 0), [0; 16], parent, key);
        Call {
            universe,
            world: parent,
            intent: key,
            height: self.run.height,
            asked_at_ns: self.run.started_at_ns,
            kind: kind.to_owned(),
            params,
            timeout_ms,
            attempt: 1,
            trace: self.run.trace.clone(),
            lease: None,
            claim,
        }
    }

    async fn keep_rate(&mut self, kind: &str, terms: &EffectTerms) {
        let Some(rate) = terms.rate else { return };
        let (clock, now_ns) = (self.outside.plane.clock(), self.outside.plane.now_ns());
        let begins_ns = self.begins_ns.get(kind).copied().unwrap_or(0).max(now_ns);
        self.begins_ns.insert(kind.to_owned(), begins_ns.saturating_add(SECOND_NS / u64::from(rate.per_second.max(1))));
        if begins_ns > now_ns {
            clock.sleep(Duration::from_nanos(begins_ns - now_ns)).await;
        }
    }
}
