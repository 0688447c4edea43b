//! How a claim on an effect ends: answered, deferred, dropped, or a dead letter. Shared by the protocols that do it.
//!
//! All of it happens in the transaction that found the claim to be held: the receipt enters the inbox, the intent is
//! marked as complete, and the item is gone, together or not at all.

use crate::protocol::{Answer, EffectClaim, Enqueue, NewItem, WokenBy, WorldError};
use crate::{
    StoreError,
    keyspace::{
        QueueShard,
        dead_letter::{self, DeadLetter},
        dedupe_bucket::{self, DedupeKind, Ending},
        effect_attempt::{self, EffectAttempts, FailedAttempt},
        effect_dedupe::{self, EffectDedupe, EffectStatus},
        effect_inflight::{self, EffectInflight},
        effect_pending::EffectItem,
        effect_retry::{self, RetryPlace},
        inbox_dedupe::DedupeId,
        low_water::{self, LowWater},
        queue::{Queue, QueueSeq},
        world_meta::{self, WorldState},
    },
};
use mundi_engine::{Read, Transaction};
use mundi_model::{
    Hash, IntentHash, UniverseId, WorldId,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Origin, Receipt, ReceiptStatus},
};

/// The claim's state when its holder comes back with a result.
pub(in crate::protocol) enum Held {
    /// The claim is held, and the world waits.
    Mine(Box<EffectInflight>),
    /// The claim is held, and nobody waits any more: it was cancelled, or its world is gone.
    Withdrawn(Box<EffectInflight>),
    /// The claim is not held, and the intent has the receipt of a worker.
    Answered,
    /// Nobody holds a claim, and nobody waits: a turn took the receipt without the inbox, or the effect was dropped. Neither leaves
    /// a mark of who did it, so a commit of this holder that was applied without an answer looks like this, too.
    Over,
    /// The claim is not held, and the world waits: there is or will be another attempt. Or an operator answered in its place.
    Lost,
}

impl Held {
    /// The reads of [`Self::read`].
    pub(in crate::protocol) fn reads(claim: &EffectClaim) -> [Read; 3] {
        let EffectClaim { universe, queue_shard, seq, world, intent, .. } = *claim;
        let keys = [
            effect_inflight::key(universe, queue_shard, seq),
            effect_dedupe::key(universe, world, intent),
            world_meta::key(universe, world),
        ];
        keys.map(|key| key.planned())
    }

    pub(in crate::protocol) async fn read<T: Transaction>(tx: &mut T, claim: &EffectClaim) -> Result<Self, StoreError> {
        let EffectClaim { universe, world, intent, .. } = *claim;
        let inflight = claim.inflight_of_anyone(tx).await?;
        let is_held = inflight.is_some();
        if let Some(held) = inflight.filter(|held| claim.holds(held)) {
            let is_awaited = is_awaited(tx, universe, &held.item, held.is_in_slot()).await?;
            if !is_awaited && is_answered_by_hand(tx, universe, world, intent).await? {
                return Ok(Self::Lost); // the reaper removes the item
            }
            let held = Box::new(held);
            return Ok(if is_awaited { Self::Mine(held) } else { Self::Withdrawn(held) });
        }
        let known = effect_dedupe::read(tx, universe, world, intent).await?;
        let by_hand = known.as_ref().is_some_and(|dedupe| dedupe.by_hand.is_some());
        Ok(match known.map(|dedupe| dedupe.status) {
            Some(EffectStatus::Complete(_)) if !by_hand => Self::Answered,
            Some(EffectStatus::Cancelled) | None if !is_held => Self::Over,
            _ => Self::Lost,
        })
    }
}

impl EffectClaim {
    /// The effect, if the claim is held.
    pub(in crate::protocol) async fn inflight<T: Transaction>(
        &self,
        tx: &mut T,
    ) -> Result<Option<EffectInflight>, StoreError> {
        Ok(self.inflight_of_anyone(tx).await?.filter(|held| self.holds(held)))
    }

    async fn inflight_of_anyone<T: Transaction>(&self, tx: &mut T) -> Result<Option<EffectInflight>, StoreError> {
        let key = effect_inflight::key(self.universe, self.queue_shard, self.seq);
        let bytes = tx.get(key.as_bytes()).await?;
        bytes.map(|bytes| effect_inflight::decode(key.as_bytes(), &bytes)).transpose()
    }

    fn holds(&self, held: &EffectInflight) -> bool {
        held.claim.token == self.token || planted(Mutant::AckWithoutToken)
    }
}

/// Whether the world waits for an effect.
pub(in crate::protocol) async fn is_awaited<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    item: &EffectItem,
    is_in_slot: bool,
) -> Result<bool, StoreError> {
    let EffectItem { world, intent, .. } = *item;
    match effect_dedupe::read(tx, universe, world, intent).await? {
        Some(dedupe) => Ok(dedupe.status == EffectStatus::Pending),
        // With a world all that is known of its effects goes.
        None if is_in_slot => {
            let meta = world_meta::read(tx, universe, world).await?;
            Ok(meta.is_some_and(|meta| matches!(meta.state, WorldState::Live | WorldState::Archived)))
        }
        None => Ok(false),
    }
}

/// Whether an operator answered the intent.
async fn is_answered_by_hand<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    intent: IntentHash,
) -> Result<bool, StoreError> {
    let known = effect_dedupe::read(tx, universe, world, intent).await?;
    Ok(known.is_some_and(|dedupe| dedupe.by_hand.is_some()))
}

/// An effect leaves the slot that it was published into without an answer: from now on a key of its own says that it is pending.
pub(in crate::protocol) fn leave_slot<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    held: &EffectInflight,
) -> Result<(), StoreError> {
    let EffectItem { world, intent, published_at_ns: at_ns, .. } = held.item;
    match held.status {
        Some(status) => effect_dedupe::write(tx, universe, world, intent, &EffectDedupe::new(status, at_ns)),
        None => Ok(()),
    }
}

/// A terminal answer on its way into the world.
pub(in crate::protocol) struct Terminal {
    pub(in crate::protocol) answer: Answer,
    pub(in crate::protocol) now_ns: u64,
    pub(in crate::protocol) dedupe_window_ns: u64,
    /// How many receipts this transaction has enqueued before.
    pub(in crate::protocol) receipts_before: u16,
    /// There may be a record of attempts that failed.
    pub(in crate::protocol) was_tried: bool,
    /// The attempt that ends with this answer, if it failed.
    pub(in crate::protocol) failed: Option<FailedAttempt>,
    pub(in crate::protocol) woken_by: WokenBy,
}

/// The receipt of an effect, as its world takes it.
pub fn receipt_of(item: &EffectItem, answer: Answer, now_ns: u64) -> InboxItem {
    let Answer { status, payload, adapter, signature, operator } = answer;
    let kind = item.kind.clone();
    let receipt = Receipt { intent: item.intent, kind, status, payload, adapter, signature, operator };
    let (correlation_id, trace) = (item.correlation_id.clone(), item.trace.clone());
    let origin = Origin { correlation_id, trace, call: item.call, ..Origin::new(now_ns) };
    InboxItem { input: Input::Receipt(receipt), origin }
}

/// Gives the world its receipt. `false` if the world is gone; then the item is dropped.
pub(in crate::protocol) async fn answer<T: Transaction>(
    tx: &mut T,
    claim: &EffectClaim,
    item: &EffectItem,
    terminal: Terminal,
) -> Result<bool, StoreError> {
    let Terminal { answer, now_ns, dedupe_window_ns, receipts_before, was_tried, failed, woken_by } = terminal;
    let (status, by_hand) = (answer.status, answer.by_hand());
    let new = NewItem { item: receipt_of(item, answer, now_ns), dedupe: Some(DedupeId::receipt(item.intent)) };
    let enqueue = Enqueue::new(claim.universe, item.world, &[new], now_ns, dedupe_window_ns)?;
    let enqueue = enqueue.beyond_bounds().after(receipts_before).woken_by(woken_by);
    match enqueue.run_within(tx).await {
        Ok(_) => {}
        Err(StoreError::World(WorldError::Deleted(_) | WorldError::NotFound { .. })) => {
            return remove(tx, claim).map(|()| false);
        }
        Err(error) => return Err(error),
    }
    let failed = failed_attempts(tx, claim, was_tried, failed).await?;
    complete(tx, claim, status, by_hand, failed, now_ns, dedupe_window_ns).map(|()| true)
}

/// The attempts that failed before an effect was over, with the last one.
pub(in crate::protocol) async fn failed_attempts<T: Transaction>(
    tx: &mut T,
    claim: &EffectClaim,
    was_tried: bool,
    last: Option<FailedAttempt>,
) -> Result<Option<Vec<FailedAttempt>>, StoreError> {
    let before = match was_tried {
        true => effect_attempt::read(tx, claim.universe, claim.queue_shard.shard(), claim.seq).await?,
        false => None,
    };
    Ok(match last {
        Some(last) => EffectAttempts::after(before, last).failed,
        None => before.and_then(|before| before.failed),
    })
}

/// The intent has its receipt: it is remembered for a while, and the item is gone.
pub(in crate::protocol) fn complete<T: Transaction>(
    tx: &mut T,
    claim: &EffectClaim,
    status: ReceiptStatus,
    by_hand: Option<Hash>,
    failed: Option<Vec<FailedAttempt>>,
    now_ns: u64,
    dedupe_window_ns: u64,
) -> Result<(), StoreError> {
    let EffectClaim { universe, world, intent, .. } = *claim;
    let dedupe = EffectDedupe { status: EffectStatus::Complete(status), at_ns: now_ns, by_hand, failed };
    effect_dedupe::write(tx, universe, world, intent, &dedupe)?;
    let id = Hash::from_bytes(*intent.as_bytes());
    let ending = Ending::new(DedupeKind::Effect, world, id, now_ns.saturating_add(dedupe_window_ns));
    dedupe_bucket::write(tx, universe, &ending)?;
    remove(tx, claim)
}

/// Takes an item out of the queue that nobody waits for. That its world has withdrawn it is of no interest any more, if it
/// was only ever in the slot that it was published into.
pub(in crate::protocol) fn remove_withdrawn<T: Transaction>(
    tx: &mut T,
    claim: &EffectClaim,
    is_in_slot: bool,
) -> Result<(), StoreError> {
    if is_in_slot {
        tx.delete(effect_dedupe::key(claim.universe, claim.world, claim.intent).as_bytes())?;
    }
    remove(tx, claim)
}

/// Takes the item out of the queue for good.
pub(in crate::protocol) fn remove<T: Transaction>(tx: &mut T, claim: &EffectClaim) -> Result<(), StoreError> {
    tx.delete(effect_inflight::key(claim.universe, claim.queue_shard, claim.seq).as_bytes())?;
    Ok(tx.delete(effect_attempt::key(claim.universe, claim.queue_shard.shard(), claim.seq).as_bytes())?)
}

/// Defers an item until its next attempt, under its own sequence, and returns the time that it is deferred to. Below the mark nobody looks any more.
pub(in crate::protocol) async fn defer<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue_shard: QueueShard,
    seq: QueueSeq,
    item: &EffectItem,
    attempts: &EffectAttempts,
) -> Result<u64, StoreError> {
    let mark = low_water::read(tx, universe, Queue::EffectRetries, queue_shard).await?;
    let place = RetryPlace { place_ns: attempts.not_before_ns.max(LowWater::time_ns(mark)), seq };
    effect_retry::write(tx, universe, queue_shard, place, item)?;
    effect_attempt::write(tx, universe, queue_shard.shard(), seq, attempts)?;
    Ok(place.place_ns)
}

/// Writes a dead letter; the letters of one commit are numbered.
pub(in crate::protocol) fn bury<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue: Queue,
    index: &mut u16,
    letter: &DeadLetter,
) -> Result<(), StoreError> {
    dead_letter::write(tx, universe, queue, *index, letter)?;
    *index = index.saturating_add(1);
    Ok(())
}
