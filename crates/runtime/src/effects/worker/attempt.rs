//! One attempt at an effect: policy, call, signature, and the receipt or the failure.

use super::{AdapterWorker, round::Next};
use crate::{
    effects::{
        Adapter, Call, denied, failed, invalid,
        policy::EffectGrant,
        refused,
        signature::{Statement, payload_hash, reason_hash},
        slots::EffectSlot,
        too_large,
    },
    metrics::{Metric, Timing},
    shell::StepSource,
};
use futures_util::future::{Either, select};
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, Hash, Value, cbor, limits,
    record::{Payload, ReceiptStatus},
};
use mundi_store::{
    StoreError,
    blob::Blobs,
    keyspace::effect_pending::EffectItem,
    protocol::{Answer, ClaimedEffect, FailEffect, Failed, Failure, Repeat},
    run,
};
use std::{sync::Arc, time::Duration};

/// The result of a successful attempt.
enum Attempted {
    Answered(Answer),
    /// The receipt comes from elsewhere, until this time.
    HandedOn(u64),
}

impl<E: Engine, B: Blobs> AdapterWorker<E, B> {
    /// One attempt, from the claim to the answer. An answer that the store does not take is left to the reaper. Says
    /// whether, and when, the effect may be claimed again.
    #[tracing::instrument(name = "effect", skip_all, fields(
        world = %claimed.item.world,
        intent = %claimed.item.intent,
        kind = claimed.item.kind,
        attempt = claimed.claim.attempt,
        trace = claimed.item.trace,
    ))]
    pub(super) async fn carry_out(
        &self,
        adapter: &Arc<dyn Adapter>,
        claimed: ClaimedEffect,
        mut slot: EffectSlot,
    ) -> Next {
        let started_ns = self.clock.now_ns();
        slot.call_begins();
        let granted = self.check_policy(&claimed).await;
        let must_sign = granted.as_ref().is_ok_and(|grant| grant.signed);
        let attempted = match granted {
            Ok(_) => self.attempt(adapter, &claimed).await,
            Err(failure) => Err(failure),
        };
        let attempted = attempted.and_then(|answered| match answered {
            Value::Integer(until_ns) if adapter.is_answered_elsewhere() => {
                Ok(Attempted::HandedOn(until_ns.try_into().unwrap_or(u64::MAX)))
            }
            answered => self.signed(adapter, &claimed, encode(&answered)?, must_sign).map(Attempted::Answered),
        });
        slot.call_is_over();
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
        let next = match &attempted {
            Ok(Attempted::Answered(_)) => Next::Never,
            Ok(Attempted::HandedOn(until_ns)) => Next::At(*until_ns),
            Err(_) => Next::Unknown,
        };
        let settled = match attempted {
            Ok(Attempted::Answered(answer)) => self.delivery().receipt(&claimed, answer).await.map(|()| true),
            Ok(Attempted::HandedOn(_)) => {
                self.metrics.add(Metric::EffectsAnsweredElsewhere, 1);
                Ok(false)
            }
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
                tracing::warn!(%intent, %code, %error, "an effect was carried out, but its answer was refused");
            }
        }
        next
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

    async fn attempt(&self, adapter: &Arc<dyn Adapter>, claimed: &ClaimedEffect) -> Result<Value, Failure> {
        let item = &claimed.item;
        let call = Call {
            universe: self.universe,
            world: item.world,
            intent: item.intent,
            height: item.height,
            asked_at_ns: item.published_at_ns,
            kind: item.kind.clone(),
            params: self.params(&item.params).await?,
            timeout_ms: item.terms.timeout_ms,
            attempt: claimed.claim.attempt,
            trace: item.trace.clone(),
            lease: item.lease.clone(),
            claim: claimed.proof,
        };
        let timeout_ms = item.terms.timeout_ms;
        match select(adapter.call(&call), self.clock.sleep(Duration::from_millis(timeout_ms))).await {
            Either::Left((answered, _)) => answered,
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
                decode(&bytes.map_err(|error| refused(&error))?)
            }
        }
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
        // What is small is in the queue, and is read there.
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
}

/// The payload of a receipt, which a program must be able to take in one piece.
fn encode(value: &Value) -> Result<Vec<u8>, Failure> {
    let payload = cbor::encode(value);
    if payload.len() > limits::PAYLOAD_BYTES_MAX { Err(too_large(limits::PAYLOAD_BYTES_MAX)) } else { Ok(payload) }
}
