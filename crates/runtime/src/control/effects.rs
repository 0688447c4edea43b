//! Open effects.

use super::{At, Ops};
use crate::{Plane, RuntimeError, lifecycle::past};
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, Height, IntentHash, ParseIdError, WorldId, cbor, limits,
    record::{Body, Input, Intent, Operator, Payload, Receipt, ReceiptStatus},
};
use mundi_store::{
    StoreError,
    keyspace::{
        dead_letter::DeadLetter,
        effect_attempt::FailedAttempt,
        effect_dedupe::{self, EffectStatus},
        effect_pending::EffectItem,
        effect_place::{EffectPlace, EffectStage},
        queue::{Queue, QueueSeq},
    },
    protocol::{
        Answer, AnswerEffect, AnsweredByHand, CancelEffect, EffectClaim, EffectError, Failure, FindEffect, FoundPlace,
        ListEffects, Page, QueuedEffect, ReadEffect, Repeat, RetryEffect, StoredLetter, WokenBy, describe_failure,
    },
};
use std::str::FromStr;

/// How often an effect is looked for again that moved on between a look and the answer.
const LOOKS_MAX: usize = 3;

/// How an effect is named: by its place in the queue, which changes with each attempt, or by its intent, which does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectName {
    Place(EffectPlace),
    Intent(IntentHash),
}

impl FromStr for EffectName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.starts_with("e_") { text.parse().map(Self::Place) } else { text.parse().map(Self::Intent) }
    }
}

/// The receipt that an operator gives.
#[derive(Debug, Clone)]
pub struct HandAnswer {
    pub status: ReceiptStatus,
    /// Canonical CBOR.
    pub payload: Vec<u8>,
    pub operator: Operator,
}

/// An intent that waits for its receipt.
struct Open {
    world: WorldId,
    intent: IntentHash,
    kind: String,
    place: Option<EffectPlace>,
}

impl<P: Plane> Ops<P> {
    /// The effects that have no receipt yet, in pages; of one world or one kind, if they are given.
    pub async fn list_effects(
        &self,
        world: Option<WorldId>,
        kind: Option<&str>,
        after: Option<EffectPlace>,
        items_max: usize,
    ) -> Result<Page<QueuedEffect, EffectPlace>, RuntimeError> {
        self.list_effects_at(None, world, kind, after, items_max).await
    }

    /// Only those at a stage.
    pub async fn list_effects_at(
        &self,
        stage: Option<EffectStage>,
        world: Option<WorldId>,
        kind: Option<&str>,
        after: Option<EffectPlace>,
        items_max: usize,
    ) -> Result<Page<QueuedEffect, EffectPlace>, RuntimeError> {
        let (universe, kind) = (self.universe, kind.map(str::to_owned));
        Ok(self.plane.run(&ListEffects { universe, world, kind, stage, after, items_max }).await?.output)
    }

    pub async fn read_effect(&self, place: EffectPlace) -> Result<QueuedEffect, RuntimeError> {
        Ok(self.plane.run(&ReadEffect { universe: self.universe, place }).await?.output)
    }

    /// Tries an effect that waits for its next attempt at once. `false` if it does not wait.
    pub async fn retry_effect(&self, place: EffectPlace) -> Result<bool, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&RetryEffect { universe, place, now_ns }).await?.output)
    }

    /// Ends an effect: its world gets an `error` receipt. `false` if the world does not wait for it any more.
    pub async fn cancel_effect(
        &self,
        place: EffectPlace,
        reason: &str,
        operator: Operator,
    ) -> Result<bool, RuntimeError> {
        let (universe, reason, now_ns) = (self.universe, reason.to_owned(), self.plane.now_ns());
        Ok(self.plane.run(&CancelEffect { universe, place, reason, operator, now_ns }).await?.output)
    }

    /// Answers an open intent as an operator. With its world, an intent is found that is in no queue, too: one whose effect became
    /// a dead letter.
    pub async fn answer_effect(
        &self,
        name: EffectName,
        world: Option<WorldId>,
        answer: HandAnswer,
    ) -> Result<AnsweredByHand, RuntimeError> {
        let mut looks = 0;
        loop {
            let answered = match self.open_effect(name, world).await? {
                Some(open) => self.answer_open(open, &answer).await,
                None => return Err(not_found(name)),
            };
            looks += 1;
            match answered {
                Err(error) if error.code() == Code::EffectNotFound && looks < LOOKS_MAX => {}
                answered => return answered,
            }
        }
    }

    async fn answer_open(&self, open: Open, answer: &HandAnswer) -> Result<AnsweredByHand, RuntimeError> {
        let Open { world, intent, kind, place } = open;
        let HandAnswer { status, payload, operator } = answer.clone();
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        let (payload, woken_by) = (Payload::Inline(payload), WokenBy::ReadyQueue);
        let answer = AnswerEffect { universe, world, intent, kind, place, status, payload, operator, now_ns, woken_by };
        Ok(self.delivery().answer_of_operator(answer).await?)
    }

    /// Answers an effect that a worker outside of this process has claimed.
    pub async fn complete_effect(&self, claim: EffectClaim, answer: Answer) -> Result<(), RuntimeError> {
        Ok(self.delivery().receipt_of_external(claim, answer).await?)
    }

    /// Looks for an effect: at its place, in all queues, then among the open intents of its world.
    async fn open_effect(&self, name: EffectName, world: Option<WorldId>) -> Result<Option<Open>, RuntimeError> {
        let intent = match name {
            EffectName::Place(place) => return self.read_effect(place).await.map(|found| Some(open(found))),
            EffectName::Intent(intent) => intent,
        };
        if let Some(found) = self.queued_effect(intent, world).await? {
            return Ok(Some(open(found)));
        }
        let Some(world) = world else { return Ok(None) };
        let past::Past { replay, .. } = self.past(At { world, height: None }).await?;
        let kind = replay.world().open_intents().find(|open| open.hash == intent).map(|open| open.kind.clone());
        Ok(Some(Open { world, intent, kind: kind.unwrap_or_default(), place: None }))
    }
}

impl<P: Plane> Ops<P> {
    /// Where an effect is now: in progress, given up as a dead letter, or over. One that is over is found in the journal of its world, if
    /// the world is given.
    pub async fn find_effect(&self, name: EffectName, world: Option<WorldId>) -> Result<FoundEffect, RuntimeError> {
        let intent = match name {
            EffectName::Place(place) => return Ok(FoundEffect::Queued(Box::new(self.read_effect(place).await?))),
            EffectName::Intent(intent) => intent,
        };
        if let Some(found) = self.queued_effect(intent, world).await? {
            return Ok(FoundEffect::Queued(Box::new(found)));
        }
        if let Some((seq, letter, item)) = self.effect_letter(intent, world).await? {
            return Ok(FoundEffect::DeadLetter { seq, letter, item: Box::new(item) });
        }
        match world {
            Some(world) => self.journaled_effect(intent, world).await?.ok_or_else(|| not_found(name)),
            None => Err(not_found(name)),
        }
    }

    /// Tries an effect at once that waits for its next attempt, or that was given up. `false` if it is being tried, or will be next.
    pub async fn retry_effect_named(&self, name: EffectName, world: Option<WorldId>) -> Result<bool, RuntimeError> {
        let mut looks = 0;
        loop {
            let done = match self.find_effect(name, world).await? {
                FoundEffect::Queued(found) => self.retry_effect(found.place).await,
                FoundEffect::DeadLetter { seq, .. } => {
                    self.replay_dead_letter(Queue::Effects, seq).await.map(|()| true)
                }
                FoundEffect::Journaled(over) => Err(over.closed()),
            };
            looks += 1;
            match done {
                Err(error) if error.code() == Code::EffectNotFound && looks < LOOKS_MAX => {}
                done => return done,
            }
        }
    }

    /// Ends an effect that is in progress or was given up: its world gets an `error` receipt. `false` if the world does not wait for it
    /// any more.
    pub async fn cancel_effect_named(
        &self,
        name: EffectName,
        world: Option<WorldId>,
        reason: &str,
        operator: Operator,
    ) -> Result<bool, RuntimeError> {
        let mut looks = 0;
        loop {
            let done = match self.find_effect(name, world).await? {
                FoundEffect::Queued(found) => self.cancel_effect(found.place, reason, operator.clone()).await,
                FoundEffect::DeadLetter { seq, letter, item } => {
                    self.cancel_letter(seq, letter.attempts, &item, reason, operator.clone()).await
                }
                FoundEffect::Journaled(over) => Err(over.closed()),
            };
            looks += 1;
            match done {
                Err(error) if error.code() == Code::EffectNotFound && looks < LOOKS_MAX => {}
                done => return done,
            }
        }
    }

    async fn cancel_letter(
        &self,
        seq: QueueSeq,
        attempts: u32,
        item: &EffectItem,
        reason: &str,
        operator: Operator,
    ) -> Result<bool, RuntimeError> {
        let failure = Failure { code: Code::EffectCancelled, reason: reason.to_owned(), repeat: Repeat::Never };
        let payload = match describe_failure(&failure, attempts) {
            Payload::Inline(bytes) => bytes,
            Payload::Blob(..) => Vec::new(),
        };
        let open = Open { world: item.world, intent: item.intent, kind: item.kind.clone(), place: None };
        let answered = self.answer_open(open, &HandAnswer { status: ReceiptStatus::Error, payload, operator }).await?;
        self.drop_dead_letter(Queue::Effects, seq).await?;
        Ok(answered == AnsweredByHand::Delivered)
    }

    /// A part of the search for an effect in all queues, which looks at no more than so many items.
    pub async fn look_for_effect(
        &self,
        intent: IntentHash,
        after: Option<EffectPlace>,
        looks_max: usize,
    ) -> Result<FoundPlace, RuntimeError> {
        Ok(self.plane.run(&FindEffect { universe: self.universe, intent, after, looks_max }).await?.output)
    }

    /// The effect, if it is in a queue.
    async fn queued_effect(
        &self,
        intent: IntentHash,
        world: Option<WorldId>,
    ) -> Result<Option<QueuedEffect>, RuntimeError> {
        let looks_max = limits::LIST_ITEMS_MAX;
        if let Some(world) = world
            && self.is_complete(intent, world).await?
        {
            return Ok(None);
        }
        let mut after = None;
        for _ in 0..limits::EFFECT_SEARCH_ITEMS_MAX / looks_max {
            match self.look_for_effect(intent, after, looks_max).await? {
                FoundPlace::Here(found) => {
                    return Ok(Some(*found).filter(|it| world.is_none_or(|is| it.item.world == is)));
                }
                FoundPlace::NotYet(place) => after = Some(place),
                FoundPlace::Nowhere => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether a receipt ended the effect, as far as it is remembered: then it is in no queue.
    async fn is_complete(&self, intent: IntentHash, world: WorldId) -> Result<bool, RuntimeError> {
        let mut tx = self.plane.engine().begin().await?;
        let known = effect_dedupe::read(&mut tx, self.universe, world, intent).await?;
        Ok(known.is_some_and(|known| matches!(known.status, EffectStatus::Complete(_))))
    }

    /// The dead letter that an effect became.
    async fn effect_letter(
        &self,
        intent: IntentHash,
        world: Option<WorldId>,
    ) -> Result<Option<(QueueSeq, DeadLetter, EffectItem)>, RuntimeError> {
        let mut after = None;
        for _ in 0..limits::EFFECT_SEARCH_ITEMS_MAX / limits::LIST_ITEMS_MAX {
            let page = self.list_dead_letters(Queue::Effects, world, after, limits::LIST_ITEMS_MAX).await?;
            for StoredLetter { seq, letter } in page.items {
                if let Ok(item) = cbor::decode::<EffectItem>(&letter.item)
                    && item.intent == intent
                {
                    return Ok(Some((seq, letter, item)));
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// The attempts of an effect that is over, which are kept for as long as the dedupe window.
    async fn failed_attempts(&self, intent: IntentHash, world: WorldId) -> Result<Vec<FailedAttempt>, RuntimeError> {
        let mut tx = self.plane.engine().begin().await?;
        let known = effect_dedupe::read(&mut tx, self.universe, world, intent).await?;
        Ok(known.and_then(|known| known.failed).unwrap_or_default())
    }

    /// Looks for an effect in the journal, from the newest record back.
    async fn journaled_effect(&self, intent: IntentHash, world: WorldId) -> Result<Option<FoundEffect>, RuntimeError> {
        let found = self.describe_world(world).await?;
        let (first, mut end) = (found.meta.first_height.get(), found.head.map_or(0, |head| head.height.get()));
        let last = first.max(end.saturating_sub(limits::EFFECT_SEARCH_RECORDS_MAX));
        let (mut ended, page) = (None, limits::LIST_ITEMS_MAX as u64);
        while end > last {
            let from = end.saturating_sub(page).max(last);
            let records = self.records_between(world, Height::new(from), Height::new(end)).await?;
            for record in records.iter().rev().filter_map(|record| record.decode().ok()) {
                match record.body {
                    Body::Ingress(ingress) => match ingress.item.input {
                        Input::Receipt(receipt) if receipt.intent == intent => {
                            let now_ns = ingress.stamps.now_ns;
                            ended =
                                Some(EffectEnd::Receipt { receipt: Box::new(receipt), height: record.height, now_ns });
                        }
                        _ => {}
                    },
                    Body::Cancel(cancelled) if cancelled == intent => {
                        ended = ended.or(Some(EffectEnd::Withdrawn { height: record.height }));
                    }
                    Body::Intent(asked) if asked.hash == intent => {
                        let (height, ended) = (record.height, ended.unwrap_or(EffectEnd::Open));
                        let failed = self.failed_attempts(intent, world).await?;
                        let over = JournaledEffect { world, height, asked, ended, failed };
                        return Ok(Some(FoundEffect::Journaled(Box::new(over))));
                    }
                    _ => {}
                }
            }
            end = from;
        }
        Ok(None)
    }
}

/// An effect, wherever it is.
#[derive(Debug)]
pub enum FoundEffect {
    /// Under way.
    Queued(Box<QueuedEffect>),
    /// Given up; its world may wait for it still.
    DeadLetter { seq: QueueSeq, letter: DeadLetter, item: Box<EffectItem> },
    /// In no queue: what the journal knows of it.
    Journaled(Box<JournaledEffect>),
}

/// An effect as the journal of its world has it.
#[derive(Debug)]
pub struct JournaledEffect {
    pub world: WorldId,
    /// Of the record that asked for it.
    pub height: Height,
    pub asked: Intent,
    pub ended: EffectEnd,
    /// The newest attempts that failed, if it ended not long ago.
    pub failed: Vec<FailedAttempt>,
}

#[derive(Debug)]
pub enum EffectEnd {
    /// Nothing on record ended it.
    Open,
    /// Its world withdrew it.
    Withdrawn {
        height: Height,
    },
    Receipt {
        receipt: Box<Receipt>,
        height: Height,
        now_ns: u64,
    },
}

impl JournaledEffect {
    fn closed(&self) -> RuntimeError {
        StoreError::from(EffectError::Closed { world: self.world, intent: self.asked.hash }).into()
    }
}

fn open(found: QueuedEffect) -> Open {
    let QueuedEffect { place, item, .. } = found;
    Open { world: item.world, intent: item.intent, kind: item.kind, place: Some(place) }
}

fn not_found(name: EffectName) -> RuntimeError {
    let error = match name {
        EffectName::Place(place) => EffectError::NotFound { place },
        EffectName::Intent(intent) => EffectError::IntentNotFound { intent },
    };
    StoreError::from(error).into()
}
