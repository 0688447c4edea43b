//! An operator intervenes: an effect is tried at once, or ended without being carried out. (To answer it is `answer_effect`.)
//!
//! Guarantees: an effect that is ended gives its world the one receipt, an `error` with the code `EFFECT_CANCELLED`, in
//! the transaction that takes it out of the queue; a worker that carries it out finds its claim lost. An effect that is
//! brought forward keeps its sequence, its attempts and its budget.
//! Unknown commit: run again; an effect that is not at its place any more is reported as not found, which means that it
//! continued: by the first run, or by a worker.

use crate::protocol::{
    Answer, EffectClaim, Failure, ReadEffect, Repeat, WokenBy, fail_effect,
    settle_effect::{Terminal, answer, defer, is_awaited, remove_withdrawn},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        effect_attempt::EffectAttempts,
        effect_place::{self, EffectPlace, EffectStage},
        queue_notify,
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, UniverseId, limits,
    record::{Operator, ReceiptStatus},
};

/// Ends an effect.
#[derive(Debug, Clone)]
pub struct CancelEffect {
    pub universe: UniverseId,
    pub place: EffectPlace,
    /// For the program, and for people.
    pub reason: String,
    /// Stands in the receipt.
    pub operator: Operator,
    pub now_ns: u64,
}

impl Protocol for CancelEffect {
    /// Whether the world got the receipt; `false` if it waits no more.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, place, ref reason, ref operator, now_ns } = *self;
        let found = ReadEffect { universe, place }.run(tx).await?;
        tx.delete(effect_place::key(universe, place).as_bytes())?;
        let (world, intent) = (found.item.world, found.item.intent);
        let token = found.claim.map_or([0; 16], |claim| claim.token);
        let claim = EffectClaim { universe, queue_shard: place.queue_shard, seq: place.seq, token, world, intent };
        if !is_awaited(tx, universe, &found.item, found.is_in_slot).await? {
            return remove_withdrawn(tx, &claim, found.is_in_slot).map(|()| false);
        }
        let failure = Failure { code: Code::EffectCancelled, reason: reason.clone(), repeat: Repeat::Never };
        let payload = fail_effect::describe_of(&found.item, None, &failure, found.attempts.attempts);
        let error = Answer::by_operator(ReceiptStatus::Error, payload, operator.clone());
        let dedupe_window_ns = limits::DEDUPE_WINDOW_NS;
        let (receipts_before, was_tried, failed, woken_by) = (0, true, None, WokenBy::ReadyQueue);
        let terminal =
            Terminal { answer: error, now_ns, dedupe_window_ns, receipts_before, was_tried, failed, woken_by };
        answer(tx, &claim, &found.item, terminal).await
    }
}

/// Tries an effect that waits for its next attempt at once.
#[derive(Debug, Clone, Copy)]
pub struct RetryEffect {
    pub universe: UniverseId,
    pub place: EffectPlace,
    pub now_ns: u64,
}

impl Protocol for RetryEffect {
    /// `false` if there was nothing to bring forward: it is being tried, or will be next.
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, place, now_ns } = *self;
        let found = ReadEffect { universe, place }.run(tx).await?;
        if place.stage != EffectStage::Waiting || place.place_ns <= now_ns {
            return Ok(false);
        }
        tx.delete(effect_place::key(universe, place).as_bytes())?;
        // The operator's word stands above the rate, too.
        let attempts = EffectAttempts { not_before_ns: now_ns, granted: true, ..found.attempts };
        defer(tx, universe, place.queue_shard, place.seq, &found.item, &attempts).await?;
        queue_notify::bump(tx, universe, &found.item.kind).map(|()| true)
    }
}
