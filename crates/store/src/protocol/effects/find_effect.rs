//! Find an effect on its way by its intent, in parts.
//!
//! Guarantees: reads only, and of each kind only the shard that the intent lies in: a sixteenth of the queues. Each part is one consistent
//! moment; an effect that moves on between two parts may be missed.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::QueuedEffect;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Shard, effect_inflight, effect_pending,
        effect_place::{self, EffectPlace, EffectStage},
    },
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{IntentHash, UniverseId};

/// Looks at no more than `looks_max` items.
#[derive(Debug, Clone, Copy)]
pub struct FindEffect {
    pub universe: UniverseId,
    pub intent: IntentHash,
    /// Where the part before ended.
    pub after: Option<EffectPlace>,
    pub looks_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundPlace {
    Here(Box<QueuedEffect>),
    /// Not up to here: the next part begins behind it.
    NotYet(EffectPlace),
    Nowhere,
}

impl Protocol for FindEffect {
    type Output = FoundPlace;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<FoundPlace, StoreError> {
        let mut left = self.looks_max.max(1);
        let first = self.after.map_or(EffectStage::Pending, |after| after.stage);
        for stage in EffectStage::ALL.into_iter().filter(|stage| *stage >= first) {
            match self.look(tx, stage, &mut left).await? {
                FoundPlace::Nowhere => {}
                found => return Ok(found),
            }
        }
        Ok(FoundPlace::Nowhere)
    }
}

impl FindEffect {
    async fn look<T: Transaction>(
        &self,
        tx: &mut T,
        stage: EffectStage,
        left: &mut usize,
    ) -> Result<FoundPlace, StoreError> {
        let (universe, shard) = (self.universe, Shard::of(self.intent.as_bytes()));
        let mut span = stage.family().prefix(universe).span();
        if let Some(after) = self.after.filter(|after| after.stage == stage) {
            span = span.after(&effect_place::key(universe, after));
        }
        loop {
            let next = tx.range(span.read(1).snapshot()).await?;
            let Some((key, _)) = next.items.first() else { return Ok(FoundPlace::Nowhere) };
            // The first kind from here on of which anything is queued, and its part of our shard.
            let kind = effect_place::parse(universe, stage, key)?.queue_shard;
            let ours = effect_place::of_queue_shard(universe, stage, kind.in_shard(shard));
            let mut part = ours.clone();
            part.start = part.start.max(span.start.clone());
            while part.start < part.end {
                let page = tx.range(part.read(*left).snapshot()).await?;
                for (key, bytes) in &page.items {
                    let place = effect_place::parse(universe, stage, key)?;
                    if intent_of(stage, key, bytes)? == self.intent {
                        let found = QueuedEffect::read(tx, universe, place, key, bytes).await?;
                        return Ok(FoundPlace::Here(Box::new(found)));
                    }
                    *left -= 1;
                    if *left == 0 {
                        return Ok(FoundPlace::NotYet(place));
                    }
                }
                match page.items.last().filter(|_| page.more) {
                    Some((key, _)) => part = part.after_bytes(key),
                    None => break,
                }
            }
            span.start = effect_place::of_kind(universe, stage, kind).end;
        }
    }
}

fn intent_of(stage: EffectStage, key: &Bytes, bytes: &Bytes) -> Result<IntentHash, StoreError> {
    Ok(match stage {
        EffectStage::Claimed => effect_inflight::decode(key, bytes)?.item.intent,
        EffectStage::Pending | EffectStage::Waiting => effect_pending::decode(key, bytes)?.intent,
    })
}
