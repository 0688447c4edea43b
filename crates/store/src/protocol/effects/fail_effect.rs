//! Fail an attempt at an effect.
//!
//! Guarantees: a failure that may pass leads to another attempt of the same item, under its own sequence, not before a
//! time that grows with each attempt; one that cannot pass, or that has used up the budget, leads to the terminal receipt
//! of the intent, at once. Only the holder of the claim can fail it.
//! Unknown commit: run again; a claim that is not held any more means that the attempt is over, by this run or by the
//! reaper, which comes to the same.

use crate::protocol::{
    Answer, EffectClaim, WokenBy, fabric_receipt,
    settle_effect::{Held, Terminal, answer, defer, leave_slot, remove_withdrawn},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        effect_attempt::{self, EffectAttempts, FailedAttempt},
        effect_inflight::{self, EffectInflight},
        effect_pending::{EffectItem, EffectTerms},
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, Value, cbor, limits,
    record::{Payload, ReceiptStatus},
};
use std::collections::BTreeMap;

/// The kind of a message to another world, as the kernel names it.
const FABRIC_SEND: &str = "fabric.send";

/// Why an attempt failed, and whether another one makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    /// For people.
    pub reason: String,
    pub repeat: Repeat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The same attempt fails again.
    Never,
    /// After the wait that the manifest asks for.
    Backoff,
    /// The other side says when, in milliseconds from now.
    AfterMs(u64),
}

#[derive(Debug, Clone)]
pub struct FailEffect {
    pub claim: EffectClaim,
    pub failure: Failure,
    /// Which adapter it comes from.
    pub adapter: String,
    /// Of the adapter, over its reason.
    pub signature: Option<Vec<u8>>,
    /// The effect's parameters, if they are known and too large to be in the queue: its receipt may tell of them.
    pub params: Option<Value>,
    pub now_ns: u64,
    pub dedupe_window_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// There will be another attempt.
    Retrying { not_before_ns: u64 },
    /// The world has its receipt.
    Answered(ReceiptStatus),
    /// Nobody waits for it any more.
    Dropped,
    /// The effect was answered before.
    Over,
    /// The claim expired and was taken away, or the attempt has failed before.
    Lost,
}

impl Protocol for FailEffect {
    type Output = Failed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Failed, StoreError> {
        match self.claim.held(tx).await? {
            Held::Mine(held) => self.end_attempt(tx, &held, 0).await,
            Held::Withdrawn(held) => remove_withdrawn(tx, &self.claim, held.is_in_slot()).map(|()| Failed::Dropped),
            Held::Answered | Held::Over => Ok(Failed::Over),
            Held::Lost => Ok(Failed::Lost),
        }
    }
}

impl FailEffect {
    /// Ends a held attempt that failed, in a transaction with so many receipts before.
    pub(in crate::protocol) async fn end_attempt<T: Transaction>(
        &self,
        tx: &mut T,
        held: &EffectInflight,
        receipts_before: u16,
    ) -> Result<Failed, StoreError> {
        let EffectClaim { universe, queue_shard, seq, .. } = self.claim;
        let was_tried = held.claim.attempt > 1;
        match plan(&held.item.terms, held.claim.attempt, &self.failure, self.now_ns) {
            Failed::Retrying { not_before_ns } => {
                let before = match was_tried {
                    true => effect_attempt::read(tx, universe, queue_shard.shard(), seq).await?,
                    false => None,
                };
                let attempts = EffectAttempts::after(before, self.failed_attempt(held, not_before_ns));
                tx.delete(effect_inflight::key(universe, queue_shard, seq).as_bytes())?;
                leave_slot(tx, universe, held)?;
                defer(tx, universe, queue_shard, seq, &held.item, &attempts).await?;
                Ok(Failed::Retrying { not_before_ns })
            }
            Failed::Answered(status) => {
                let payload = describe_of(&held.item, self.params.as_ref(), &self.failure, held.claim.attempt);
                let signature = self.signature.clone();
                let terminal = Terminal {
                    answer: Answer { signature, ..Answer::new(status, payload, self.adapter.clone()) },
                    now_ns: self.now_ns,
                    dedupe_window_ns: self.dedupe_window_ns,
                    receipts_before,
                    was_tried,
                    failed: Some(self.failed_attempt(held, 0)),
                    woken_by: WokenBy::ReadyQueue,
                };
                let delivered = answer(tx, &self.claim, &held.item, terminal).await?;
                Ok(if delivered { Failed::Answered(status) } else { Failed::Dropped })
            }
            other => Ok(other),
        }
    }
}

impl FailEffect {
    /// The record of the attempt, for people.
    fn failed_attempt(&self, held: &EffectInflight, next_ns: u64) -> FailedAttempt {
        let Failure { code, reason, .. } = &self.failure;
        FailedAttempt {
            attempt: held.claim.attempt,
            at_ns: self.now_ns,
            worker: held.claim.worker,
            code: code.to_string(),
            reason: reason.chars().take(limits::EFFECT_ATTEMPT_REASON_CHARS_MAX).collect(),
            next_ns,
        }
    }
}

/// Another attempt, or the end.
fn plan(terms: &EffectTerms, attempt: u32, failure: &Failure, now_ns: u64) -> Failed {
    match next_attempt_ms(terms, attempt, failure.repeat) {
        Some(wait_ms) => Failed::Retrying { not_before_ns: now_ns.saturating_add(wait_ms.saturating_mul(1_000_000)) },
        None => match failure.code {
            Code::EffectTimeout | Code::EffectClaimExpired | Code::CallTimeout => {
                Failed::Answered(ReceiptStatus::Timeout)
            }
            _ => Failed::Answered(ReceiptStatus::Error),
        },
    }
}

/// How long the next attempt waits; `None` after the last one.
pub fn next_attempt_ms(terms: &EffectTerms, attempt: u32, repeat: Repeat) -> Option<u64> {
    match repeat {
        _ if attempt >= terms.attempts_max => None,
        Repeat::Never => None,
        Repeat::Backoff => Some(backoff_ms(terms, attempt)),
        Repeat::AfterMs(wait_ms) => Some(wait_ms.min(limits::EFFECT_BACKOFF_MS_MAX).max(backoff_ms(terms, attempt))),
    }
}

fn backoff_ms(terms: &EffectTerms, attempt: u32) -> u64 {
    let doublings = attempt.saturating_sub(1).min(32);
    let asked_ms = terms.backoff_ms.saturating_mul(1 << doublings).min(terms.backoff_ms_max);
    asked_ms.clamp(limits::EFFECT_BACKOFF_MS_MIN, limits::EFFECT_BACKOFF_MS_MAX)
}

/// The same for an effect of which more can be said: a message that was not sent has the fields of one that was.
pub(in crate::protocol) fn describe_of(
    item: &EffectItem,
    params: Option<&Value>,
    failure: &Failure,
    attempts: u32,
) -> Payload {
    if item.kind != FABRIC_SEND {
        return describe(failure, attempts);
    }
    let queued = match &item.params {
        Payload::Inline(bytes) => cbor::decode(bytes).ok(),
        Payload::Blob(..) => None,
    };
    let params = params.or(queued.as_ref()).unwrap_or(&Value::Null);
    let mut fields = fields(failure, attempts);
    fields.extend(fabric_receipt("error", item.intent, params, None));
    Payload::Inline(cbor::encode(&Value::Map(fields)))
}

/// The payload of a receipt that tells of a failure: `{attempts, code, reason}`.
pub fn describe(failure: &Failure, attempts: u32) -> Payload {
    describe_with(failure, attempts, [])
}

/// The same, with more to say.
pub(in crate::protocol) fn describe_with<'f>(
    failure: &Failure,
    attempts: u32,
    more: impl IntoIterator<Item = (&'f str, Value)>,
) -> Payload {
    let mut fields = fields(failure, attempts);
    fields.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Payload::Inline(cbor::encode(&Value::Map(fields)))
}

fn fields(failure: &Failure, attempts: u32) -> BTreeMap<String, Value> {
    let reason = failure.reason.chars().take(limits::REASON_BYTES_MAX / 4).collect();
    BTreeMap::from([
        ("attempts".to_owned(), Value::Integer(attempts.into())),
        ("code".to_owned(), Value::Text(failure.code.to_string())),
        ("reason".to_owned(), Value::Text(reason)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: EffectTerms = EffectTerms {
        timeout_ms: 1,
        attempts_max: 4,
        backoff_ms: 10,
        backoff_ms_max: 25,
        rate: None,
        children_active_max: None,
    };

    fn failed(code: Code, repeat: Repeat) -> Failure {
        Failure { code, reason: "why".into(), repeat }
    }

    #[test]
    fn waits_double_up_to_their_bound_until_the_budget_is_spent() {
        let failure = failed(Code::EffectFailed, Repeat::Backoff);
        let waits = [1, 2, 3].map(|attempt| plan(&TERMS, attempt, &failure, 0));
        assert_eq!(waits, [10, 20, 25].map(|ms| Failed::Retrying { not_before_ns: ms * 1_000_000 }));
        assert_eq!(plan(&TERMS, 4, &failure, 0), Failed::Answered(ReceiptStatus::Error));
    }

    #[test]
    fn what_cannot_pass_ends_at_once() {
        let failure = failed(Code::EffectDenied, Repeat::Never);
        assert_eq!(plan(&TERMS, 1, &failure, 0), Failed::Answered(ReceiptStatus::Error));
    }

    #[test]
    fn a_time_that_ran_out_ends_as_a_timeout() {
        for code in [Code::EffectTimeout, Code::EffectClaimExpired, Code::CallTimeout] {
            let failure = failed(code, Repeat::Backoff);
            assert_eq!(plan(&TERMS, 4, &failure, 0), Failed::Answered(ReceiptStatus::Timeout));
        }
    }

    /// Once an effect without a backoff was tried thousands of times in a second, and `Retry-After` parked one for ever.
    #[test]
    fn neither_a_manifest_nor_the_other_side_waits_for_ever_or_not_at_all() {
        let hasty = EffectTerms { backoff_ms: 0, backoff_ms_max: 0, ..TERMS };
        let failure = failed(Code::EffectFailed, Repeat::Backoff);
        let wait = |ms: u64| Failed::Retrying { not_before_ns: ms * 1_000_000 };
        assert_eq!(plan(&hasty, 1, &failure, 0), wait(limits::EFFECT_BACKOFF_MS_MIN));
        let forever = failed(Code::EffectFailed, Repeat::AfterMs(u64::MAX));
        assert_eq!(plan(&TERMS, 1, &forever, 0), wait(limits::EFFECT_BACKOFF_MS_MAX));
        let patient = EffectTerms { backoff_ms: u64::MAX, backoff_ms_max: u64::MAX, ..TERMS };
        assert_eq!(plan(&patient, 1, &failure, 0), wait(limits::EFFECT_BACKOFF_MS_MAX));
    }

    #[test]
    fn the_other_side_may_ask_for_more_patience_and_never_for_less() {
        let wait = |ms| plan(&TERMS, 1, &failed(Code::EffectFailed, Repeat::AfterMs(ms)), 0);
        assert_eq!(wait(700), Failed::Retrying { not_before_ns: 700_000_000 });
        assert_eq!(wait(1), Failed::Retrying { not_before_ns: 10_000_000 });
    }
}
