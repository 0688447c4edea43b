//! List the effects of a universe that have no receipt yet, in pages; and look at one.
//!
//! Guarantees: each page is one consistent moment, in the order of stage, kind, shard and sequence. An effect that moves
//! on between two pages may be listed twice, or not at all.
//! Unknown commit: cannot be; it writes nothing.

use super::settle_effect::is_awaited;
use crate::protocol::{
    EffectError,
    page::{Page, Room},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        QueueShard, Shard, Span,
        effect_attempt::{self, EffectAttempts},
        effect_inflight,
        effect_pending::{self, EffectItem},
        effect_place::{self, EffectPlace, EffectStage},
        queue::Claim,
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone)]
pub struct ListEffects {
    pub universe: UniverseId,
    pub world: Option<WorldId>,
    pub kind: Option<String>,
    /// Only those at this stage.
    pub stage: Option<EffectStage>,
    pub after: Option<EffectPlace>,
    pub items_max: usize,
}

/// An effect on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedEffect {
    pub place: EffectPlace,
    pub item: EffectItem,
    pub attempts: EffectAttempts,
    /// The worker that carries it out.
    pub claim: Option<Claim>,
    /// Only its world and the slot that it was published into know of it.
    pub is_in_slot: bool,
    /// Its world does not wait for it any more. The next worker that claims it drops it.
    pub is_withdrawn: bool,
}

impl QueuedEffect {
    /// An item out of the bytes of its place. One that cannot be read is damage: a claim would bury it.
    pub(super) async fn read<T: Transaction>(
        tx: &mut T,
        universe: UniverseId,
        place: EffectPlace,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<Self, StoreError> {
        let (item, claim, is_in_slot) = match place.stage {
            EffectStage::Claimed => {
                let held = effect_inflight::decode(key, bytes)?;
                let is_in_slot = held.is_in_slot();
                (held.item, Some(held.claim), is_in_slot)
            }
            EffectStage::Pending | EffectStage::Waiting => (effect_pending::decode(key, bytes)?, None, false),
        };
        let attempts = effect_attempt::read(tx, universe, place.queue_shard.shard(), place.seq).await?;
        let is_withdrawn = !is_awaited(tx, universe, &item, is_in_slot).await?;
        Ok(Self { place, item, attempts: attempts.unwrap_or_default(), claim, is_in_slot, is_withdrawn })
    }
}

impl Protocol for ListEffects {
    type Output = Page<QueuedEffect, EffectPlace>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Page<QueuedEffect, EffectPlace>, StoreError> {
        let (mut page, mut room) = (Page::new(), Room::new(self.items_max));
        let first = self.after.map_or(EffectStage::Pending, |after| after.stage);
        let wanted = |stage: &EffectStage| *stage >= first && self.stage.is_none_or(|only| only == *stage);
        for stage in EffectStage::ALL.into_iter().filter(wanted) {
            let mut span = self.span(stage);
            if let Some(after) = self.after.filter(|after| after.stage == stage) {
                span = span.after(&effect_place::key(self.universe, after));
            }
            if span.start >= span.end {
                continue; // the page before ended behind this kind
            }
            let found = tx.range(span.read(room.looks()).snapshot()).await?;
            for (index, (key, bytes)) in (1..).zip(&found.items) {
                let place = effect_place::parse(self.universe, stage, key)?;
                let effect = QueuedEffect::read(tx, self.universe, place, key, bytes).await?;
                let taken = self.takes(&effect.item);
                page.items.extend(taken.then_some(effect));
                room.spend(taken);
                if room.is_spent() || found.more && index == found.items.len() {
                    page.next = Some(place);
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }
}

impl ListEffects {
    /// The keys that may be wanted. Two kinds may share a part of the queue, so each item is compared, too.
    fn span(&self, stage: EffectStage) -> Span {
        match &self.kind {
            Some(kind) => effect_place::of_kind(self.universe, stage, QueueShard::new(kind, Shard::FIRST)),
            None => stage.family().prefix(self.universe).span(),
        }
    }

    fn takes(&self, item: &EffectItem) -> bool {
        self.world.is_none_or(|world| item.world == world) && self.kind.as_ref().is_none_or(|kind| item.kind == *kind)
    }
}

/// One effect, by its place.
#[derive(Debug, Clone, Copy)]
pub struct ReadEffect {
    pub universe: UniverseId,
    pub place: EffectPlace,
}

impl Protocol for ReadEffect {
    type Output = QueuedEffect;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<QueuedEffect, StoreError> {
        let Self { universe, place } = *self;
        let key = effect_place::key(universe, place);
        // With a conflict: who decides something by it must not be overtaken by a claim.
        let bytes = tx.get(key.as_bytes()).await?.ok_or(EffectError::NotFound { place })?;
        QueuedEffect::read(tx, universe, place, key.as_bytes(), &bytes).await
    }
}
