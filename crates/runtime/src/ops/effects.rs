//! Effects on their way.

use super::{At, Ops};
use crate::{
    Plane, RuntimeError,
    holder::{Holder, tell},
    lifecycle::past,
};
use mundi_model::{
    Code, Coded, IntentHash, ParseIdError, WorldId, limits,
    record::{Operator, Payload, ReceiptStatus},
};
use mundi_store::{
    StoreError,
    keyspace::effect_place::EffectPlace,
    protocol::{
        AnswerEffect, AnsweredByHand, CancelEffect, EffectError, ListEffects, Page, QueuedEffect, ReadEffect,
        RetryEffect, answer_effect,
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
        let (universe, kind) = (self.universe, kind.map(str::to_owned));
        Ok(self.plane.run(&ListEffects { universe, world, kind, after, items_max }).await?.output)
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

    /// Answers an open intent by hand. With its world, an intent is found that is in no queue, too: one whose effect became
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
        let (engine, clock, blobs) = (self.plane.engine(), &**self.plane.clock(), self.plane.blobs());
        let payload = Payload::Inline(payload);
        let give = async |holder_is_told| {
            let by_hand = AnswerEffect {
                universe,
                world,
                intent,
                kind,
                place,
                status,
                payload,
                operator,
                now_ns,
                holder_is_told,
            };
            answer_effect(engine, clock, blobs, by_hand).await
        };
        let holder = self.worker.as_ref().map(|worker| worker as &dyn Holder);
        Ok(tell(holder, (universe, world), give).await?)
    }

    /// Looks for an effect: at its place, in all queues, then among the open intents of its world.
    async fn open_effect(&self, name: EffectName, world: Option<WorldId>) -> Result<Option<Open>, RuntimeError> {
        let intent = match name {
            EffectName::Place(place) => return self.read_effect(place).await.map(|found| Some(open(found))),
            EffectName::Intent(intent) => intent,
        };
        let mut after = None;
        loop {
            let page = self.list_effects(world, None, after, limits::LIST_ITEMS_MAX).await?;
            if let Some(found) = page.items.into_iter().find(|found| found.item.intent == intent) {
                return Ok(Some(open(found)));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let Some(world) = world else { return Ok(None) };
        let past::Past { replay, .. } = self.past(At { world, height: None }).await?;
        let kind = replay.world().open_intents().find(|open| open.hash == intent).map(|open| open.kind.clone());
        Ok(Some(Open { world, intent, kind: kind.unwrap_or_default(), place: None }))
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
