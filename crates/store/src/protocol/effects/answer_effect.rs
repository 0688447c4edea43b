//! An operator answers an open intent.
//!
//! Guarantees: the receipt enters the world's inbox, names its operator and ends the effect, in one transaction, and only
//! while the intent has no receipt. So an intent has exactly one terminal receipt, also against a worker that answers at the
//! same time: both read the same keys, and one of them conflicts. A worker that holds a claim on the effect finds it lost,
//! and its receipt is refused.
//! Unknown commit: run again; an intent that has this very answer is reported as answered.

use crate::protocol::{
    Answer, EffectClaim, EffectError, ReadEffect, WokenBy,
    enqueue::spill_payload,
    settle_effect::{Terminal, answer, is_awaited},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    blob::Blobs,
    keyspace::{
        QueueShard,
        effect_dedupe::{self, EffectStatus},
        effect_pending::{EffectItem, EffectTerms},
        effect_place::{self, EffectPlace},
        queue::QueueSeq,
    },
    run,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Height, IntentHash, Stamp, UniverseId, WorldId, limits,
    mutants::{Mutant, planted},
    record::{Operator, Payload, ReceiptStatus},
};

/// Moves a large payload to the content store, then answers.
pub async fn answer_effect<E: Engine, B: Blobs>(
    engine: &E,
    clock: &dyn Clock,
    blobs: &B,
    mut by_hand: AnswerEffect,
) -> Result<AnsweredByHand, StoreError> {
    spill_payload(blobs, by_hand.universe, &mut by_hand.payload).await?;
    Ok(run(engine, clock, &by_hand).await?.output)
}

#[derive(Debug, Clone)]
pub struct AnswerEffect {
    pub universe: UniverseId,
    pub world: WorldId,
    pub intent: IntentHash,
    /// Empty if no open intent has this hash: then only an answer that was given before is found.
    pub kind: String,
    /// Where the effect lies. An effect that moved on is not found there, and must be looked for again. `None` for an effect
    /// that is in no queue, such as a dead letter.
    pub place: Option<EffectPlace>,
    pub status: ReceiptStatus,
    /// Canonical CBOR.
    pub payload: Payload,
    pub operator: Operator,
    pub now_ns: u64,
    pub woken_by: WokenBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredByHand {
    /// The receipt is in the inbox.
    Delivered,
    /// The same operator gave the same answer before.
    Before,
    /// The world is gone.
    Dropped,
}

impl Protocol for AnswerEffect {
    type Output = AnsweredByHand;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<AnsweredByHand, StoreError> {
        let Self { universe, world, intent, .. } = *self;
        let given = Answer::by_operator(self.status, self.payload.clone(), self.operator.clone());
        let known = effect_dedupe::read(tx, universe, world, intent).await?;
        let closed = || StoreError::from(EffectError::Closed { world, intent });
        let found = match known.as_ref().map(|dedupe| (dedupe.status, dedupe.by_hand)) {
            Some((EffectStatus::Complete(_), before)) if before == given.by_hand() => {
                return Ok(AnsweredByHand::Before);
            }
            Some((EffectStatus::Complete(_) | EffectStatus::Cancelled, _)) if !planted(Mutant::AnswerUnasked) => {
                return Err(closed());
            }
            Some(_) => self.queued(tx).await?,
            // Of an effect in a slot of its world's process only the claim is known.
            None => self.queued(tx).await?.filter(|found| found.is_in_slot),
        };
        let (claim, item) = match found {
            Some(found) => {
                if !is_awaited(tx, universe, &found.item, found.is_in_slot).await? && !planted(Mutant::AnswerUnasked) {
                    return Err(closed());
                }
                tx.delete(effect_place::key(universe, found.place).as_bytes())?;
                (found.claim, found.item)
            }
            None if known.is_some() && !self.kind.is_empty() => (self.claim_of(self.nowhere()), self.item()),
            None => return Err(EffectError::IntentNotFound { intent }.into()),
        };
        let (now_ns, woken_by, dedupe_window_ns) = (self.now_ns, self.woken_by, limits::DEDUPE_WINDOW_NS);
        let (receipts_before, was_tried, failed) = (0, true, None);
        let terminal =
            Terminal { answer: given, now_ns, dedupe_window_ns, receipts_before, was_tried, failed, woken_by };
        let delivered = answer(tx, &claim, &item, terminal).await?;
        Ok(if delivered { AnsweredByHand::Delivered } else { AnsweredByHand::Dropped })
    }
}

/// The effect at its place.
struct Queued {
    place: EffectPlace,
    claim: EffectClaim,
    item: EffectItem,
    is_in_slot: bool,
}

impl AnswerEffect {
    /// The effect at the place that the caller saw it at.
    async fn queued<T: Transaction>(&self, tx: &mut T) -> Result<Option<Queued>, StoreError> {
        let Some(place) = self.place else { return Ok(None) };
        let found = ReadEffect { universe: self.universe, place }.run(tx).await?;
        if (found.item.world, found.item.intent) != (self.world, self.intent) {
            return Err(EffectError::NotFound { place }.into());
        }
        let claim = EffectClaim {
            token: found.claim.map_or([0; 16], |claim| claim.token),
            ..self.claim_of((place.queue_shard, place.seq))
        };
        Ok(Some(Queued { place, claim, item: found.item, is_in_slot: found.is_in_slot }))
    }

    fn claim_of(&self, (queue_shard, seq): (QueueShard, QueueSeq)) -> EffectClaim {
        let Self { universe, world, intent, .. } = *self;
        EffectClaim { universe, queue_shard, seq, token: [0; 16], world, intent }
    }

    /// A place that no item has: there is nothing to remove.
    fn nowhere(&self) -> (QueueShard, QueueSeq) {
        (QueueShard::of(&self.kind, self.intent), QueueSeq::new(Stamp::new(0, 0), 0))
    }

    /// The item of an effect that is in no queue.
    fn item(&self) -> EffectItem {
        EffectItem {
            world: self.world,
            intent: self.intent,
            height: Height::GENESIS,
            kind: self.kind.clone(),
            params: Payload::Inline(Vec::new()),
            label: String::new(),
            policy_context: None,
            published_at_ns: 0,
            trace: None,
            terms: EffectTerms::default(),
            correlation_id: None,
            call: None,
            lease: None,
        }
    }
}
