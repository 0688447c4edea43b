//! Commit a turn: the unit of progress.
//!
//! Guarantees: one fenced transaction checks head and cursor, appends the records, advances both, publishes the
//! effects and timers that the records announce, withdraws those that they cancel, stores the replies, and notes whether the world is paused: all or
//! nothing. So "appended, but its effects were not published" cannot be seen by anyone, crash or not. An intent that
//! was published before, in whatever state it is now, is not published again: the hash of one that the records announce covers the world and
//! a height that nobody has written yet, so only what was inherited is asked for. An effect for which an adapter of the same
//! process has a slot free is published as claimed, by one key; a receipt that comes from such a slot is taken only while its claim
//! is held, and ends the effect in the same transaction: the key is gone, and the journal knows of both. That the world waits
//! for it nobody but the world's own turns could change, and their head is compared. The first turn of a holder on probation ends that.
//! A turn that has not read the inbox, because its process remembers it as drained, says so (`expects_end`): it is committed only if nothing
//! was enqueued between the version that was remembered and this commit. So what was acknowledged before an item was handed to the
//! world stands before the item, whoever acknowledged it. If something was enqueued, nothing is written, and the turn is made again.
//! A reply to a call of another world is the receipt of that world's effect, and enters its inbox with this very turn (`call_world`).
//! The cursor never passes an item that the turn has not read: it moves from where the turn saw it, over items that were read
//! without a gap, and to the place of a direct item only with the proof that nothing else is before it (`inbox_end`).
//! Unknown commit: run again; a head that stands at the end of this turn's records, with their chain hash, means
//! that the first run was applied, and with it everything else; also if the inbox has grown since.

use crate::protocol::{
    EffectClaim, EffectError, Enqueue, InboxEnd, InboxError, TurnItem,
    call_world::{self, Receipts, Replied, answer_caller},
    cancel_child, end_probation, require_world,
    settle_effect::{Held, complete, failed_attempts},
    spawn_children::{self, spawn_children},
};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    journal::{
        Batch, Failures, JournalError,
        append::{self, Appending},
    },
    keyspace::{
        QueueShard, child_work,
        dedupe_bucket::{self, DedupeKind, Ending},
        effect_dedupe::{self, EffectDedupe, EffectStatus},
        effect_inflight,
        effect_pending::{self, EffectItem},
        inbox_dedupe::{self, DedupeId},
        inbox_depth::{self, Depth},
        journal_entry,
        journal_head::{self, JournalHead, Position},
        lease, lease_authority,
        low_water::{self, LowWater},
        manifest_at, notify,
        queue::{Claim, Queue},
        queue_notify::{self, TIMERS},
        ready::{self, ReadyHint},
        reply::{self, StoredReply},
        timer_dedupe::{self, TimerDedupe, TimerStatus},
        timer_due::{self, TimerItem, TimerPlace},
        world_failure::{self, WorldFailure},
        world_index,
        world_log::{self, LogPage},
        world_meta::{self, WorldMeta},
    },
};
use bytes::Bytes;
use mundi_engine::{Read, ReadPlan, Source, Transaction};
use mundi_model::{
    Hash, Height, InboxSeq, IntentHash, UniverseId, WorldId,
    child::CHILD_SPAWN,
    limits,
    mutants::{Mutant, planted},
    pool::AuthorityChange,
    record::{Receipt, ReceiptStatus, Reply, ReplyOutcome},
};
use std::collections::BTreeSet;

/// Commits a turn.
#[derive(Debug, Clone)]
pub struct CommitTurn {
    pub fence: Fence,
    /// Where the cursor was when the turn was read.
    pub cursor: Option<InboxSeq>,
    /// For a turn that has not read the inbox: nothing was enqueued since the inbox ended here.
    pub expects_end: Option<InboxEnd>,
    /// The items that the turn took, if any.
    pub consumed: Option<Consumed>,
    /// Its records, from the head that the turn was read at. Replies and cancellations are taken from here.
    pub records: Batch,
    /// The effects to dispatch, of the intents that the records announce.
    pub effects: Vec<EffectItem>,
    pub timers: Vec<TimerItem>,
    /// Receipts that the world gets with this very turn: a fork that is answered from its parent's.
    pub receipts: Vec<Receipt>,
    pub in_process: InProcess,
    /// Pages of the world's log that its steps added to.
    pub logs: Vec<LogPage>,
    /// Of a pool: leases that became active or ceased to be, in order.
    pub authorities: Vec<AuthorityChange>,
    /// Whether the world takes nothing but commands from now on, if the turn changed that.
    pub paused: Option<bool>,
    /// The world has more to do even if nothing else comes in.
    pub ready: bool,
    pub now_ns: u64,
}

/// The connections of a turn to other parts of the same process.
#[derive(Debug, Clone, Default)]
pub struct InProcess {
    /// For each effect the claim under which it is published, if an adapter has a slot free for it; the others go into the queue.
    pub claims: Vec<Option<Claim>>,
    /// Effects whose receipts bypassed the inbox.
    pub answered: Vec<AnsweredEffect>,
    /// Calls whose makers wait for the turn itself, in order: a reply that it gives them is journaled, and stored nowhere else.
    pub calls: Vec<InboxSeq>,
}

/// An effect whose receipt is delivered directly and bypasses the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredEffect {
    pub claim: EffectClaim,
    pub status: ReceiptStatus,
}

/// How far into the inbox a turn got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    through: InboxSeq,
    /// The last one that stood in the inbox.
    last_read: Option<InboxSeq>,
    /// The items and bytes that leave the inbox.
    depth: Depth,
    end: Option<InboxEnd>,
    /// Calls among them that no world made, in order: no effect waits for their replies.
    outside_calls: Vec<InboxSeq>,
}

impl Consumed {
    /// The first items after the cursor, as they were read, and direct items behind them if the inbox was read to its
    /// end; `None` for no items.
    pub fn of<'a, I>(items: I, end: Option<&InboxEnd>) -> Option<Self>
    where
        I: IntoIterator<Item = &'a TurnItem, IntoIter: DoubleEndedIterator + Clone>,
    {
        let items = items.into_iter();
        let through = items.clone().next_back()?.seq;
        let last_read = items.clone().rfind(|item| !item.seq.is_direct()).map(|item| item.seq);
        let end = end.filter(|_| through.is_direct()).cloned();
        let is_call = |item: &&TurnItem| !item.seq.is_direct() && item.item.origin.wants_reply;
        let outside_calls = items.clone().filter(is_call).filter(|item| item.item.origin.sender.is_none());
        let outside_calls = outside_calls.map(|item| item.seq).collect();
        Some(Self { through, last_read, depth: items.map(|item| item.depth).sum(), end, outside_calls })
    }

    pub fn through(&self) -> InboxSeq {
        self.through
    }

    /// Refuses to pass what was not read.
    fn plan(&self, world: WorldId, expected: Option<InboxSeq>, actual: Option<InboxSeq>) -> Result<(), InboxError> {
        plan_cursor(expected, actual, self.through)?;
        let read = self.last_read.or(actual);
        let is_proven = || self.end.as_ref().is_some_and(|end| end.lets_pass(read, self.through));
        if self.through.is_direct() && !is_proven() {
            return Err(InboxError::Unread { world, read, to: self.through });
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCommitted {
    pub head: JournalHead,
    pub cursor: Option<InboxSeq>,
    /// Which of the effects were published as claimed, by their index, in order.
    pub claimed: Vec<u16>,
    /// Worlds that got the receipt of a call from it, each as often as it did.
    pub callers: Vec<(UniverseId, WorldId)>,
}

impl Protocol for CommitTurn {
    type Output = TurnCommitted;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    /// Lease, head and cursor are what the last turn of this worker left.
    fn source(&self) -> Source {
        Source::Cache
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan { reads: self.reads(), rereads: self.rereads(), new_keys: self.new_keys() }
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<TurnCommitted, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        self.check_published()?;
        self.check_end(tx).await?;
        let lease = self.fence.lease(tx).await?;
        let after = self.consumed.as_ref().map(Consumed::through).or(self.cursor);
        let mut committed =
            TurnCommitted { head: self.records.end(), cursor: after, claimed: Vec::new(), callers: Vec::new() };
        let before = append::position(tx, universe, world).await?;
        if append::plan(before.head, &self.records)? == Appending::AlreadyThere {
            return Ok(committed);
        }
        if let Some(consumed) = &self.consumed {
            consumed.plan(world, self.cursor, before.cursor)?;
            if consumed.depth.items > 0 {
                inbox_depth::subtract(tx, universe, world, consumed.depth)?;
            }
        }
        // What not every turn has is a future in a box, so that this one, which is made for every turn, stays small.
        for answered in &self.in_process.answered {
            Box::pin(answered.settle(tx, self.now_ns)).await?;
        }
        let cursor = self.consumed.as_ref().map(Consumed::through).or(before.cursor);
        self.index_manifest(tx).await?;
        self.records.write(tx, universe, world)?;
        end_probation::end(tx, self.fence, lease)?;
        journal_head::write(tx, universe, world, Position { head: self.records.end(), cursor })?;
        if !self.effects.is_empty() {
            committed.claimed = Box::pin(self.publish_effects(tx)).await?;
        }
        if !self.timers.is_empty() {
            Box::pin(self.publish_timers(tx)).await?;
        }
        if !self.records.cancelled().is_empty() {
            Box::pin(self.withdraw(tx)).await?;
        }
        if !self.receipts.is_empty() {
            Box::pin(self.answer(tx)).await?;
        }
        if self.stored_replies().next().is_some() {
            committed.callers = Box::pin(self.reply(tx)).await?;
        }
        self.note_failures(tx).await?;
        for page in &self.logs {
            world_log::write(tx, universe, world, page)?;
        }
        for change in &self.authorities {
            lease_authority::write(tx, universe, world, change)?;
        }
        if self.paused.is_some() || self.ready {
            Box::pin(self.note_state(tx)).await?;
        }
        Ok(committed)
    }
}

impl CommitTurn {
    /// Only a turn that changes the manifest reads the one before.
    async fn index_manifest<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let Some(after) = self.records.last_manifest() else { return Ok(()) };
        let before = manifest_at::read(tx, universe, world, self.records.start().height).await?;
        world_index::follow_manifest(tx, universe, world, before, Some(after))
    }

    /// Its reads as long as nothing is wrong.
    fn reads(&self) -> Vec<Read> {
        let Fence { universe, world, .. } = self.fence;
        let mut reads = vec![lease::key(universe, world).planned(), journal_head::key(universe, world).planned()];
        if self.expects_end.is_some() {
            reads.push(notify::key(universe, world).planned());
        }
        if self.paused.is_some() {
            reads.push(child_work::key(universe, world).planned());
        }
        if self.paused.is_some() && !self.ready {
            reads.push(world_meta::key(universe, world).planned());
        }
        if self.ready {
            let usual = ready::key(universe, ready::PRIORITY_NORMAL, world);
            reads.extend([world_meta::key(universe, world), usual].map(|key| key.planned()));
        }
        for item in &self.timers {
            let queue_shard = timer_due::queue_shard(timer_due::shard(item.intent));
            reads.push(low_water::key(universe, Queue::Timers, queue_shard).planned());
        }
        let claims = self.in_process.answered.iter().map(|answered| answered.claim);
        reads.extend(claims.map(|claim| effect_inflight::key(universe, claim.queue_shard, claim.seq).planned()));
        if self.records.failures().count > 0 {
            reads.push(world_failure::key(universe, world).planned());
        }
        let calls = self.stored_replies().filter(|(_, answer)| self.may_be_of_world(answer.to));
        reads.extend(calls.map(|(_, answer)| call_world::reads(universe, world, answer.to)));
        let failed = self.records.replies().iter().filter(|(_, it)| matches!(it.outcome, ReplyOutcome::Failed(..)));
        reads.extend(failed.map(|(_, answer)| reply::key(universe, world, answer.to).planned()));
        if self.effects.iter().any(|item| item.kind == CHILD_SPAWN) {
            reads.push(spawn_children::reads(universe, world));
        }
        for &intent in self.records.cancelled() {
            reads.push(timer_dedupe::key(universe, world, intent).planned());
            reads.push(effect_dedupe::key(universe, world, intent).planned());
        }
        reads
    }

    /// Effects that are published as claimed: the adapter of this process that answers one checks whether the claim is held.
    fn rereads(&self) -> Vec<Bytes> {
        let Fence { universe, world, .. } = self.fence;
        let claimed = self.effects.iter().zip(&self.in_process.claims).filter(|(_, claim)| claim.is_some());
        let keys = claimed.flat_map(|(item, _)| {
            let held = effect_inflight::prefix(universe, QueueShard::of(&item.kind, item.intent));
            let inherited = !self.is_new(item.height);
            [Some(held), inherited.then(|| effect_dedupe::key(universe, world, item.intent))]
        });
        keys.flatten().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect()
    }

    /// Entries of the journal, and replies.
    fn new_keys(&self) -> Vec<Bytes> {
        let Fence { universe, world, .. } = self.fence;
        [journal_entry::prefix, reply::prefix]
            .map(|prefix| Bytes::copy_from_slice(prefix(universe, world).as_bytes()))
            .into()
    }

    /// Refuses if something was enqueued that a turn without a look into the inbox cannot know of; unless the turn was applied already.
    async fn check_end<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let Some(end) = &self.expects_end else { return Ok(()) };
        let is_grown = notify::depend(tx, universe, world).await? != *end.notify();
        if is_grown && append::position(tx, universe, world).await?.head != self.records.end() {
            return Err(InboxError::Grown { world }.into());
        }
        Ok(())
    }

    /// Replies to calls whose makers do not wait for the turn itself.
    fn stored_replies(&self) -> impl Iterator<Item = &(Height, Reply)> {
        self.records.replies().iter().filter(|(_, answer)| self.in_process.calls.binary_search(&answer.to).is_err())
    }

    /// Whether a world may have made a call: such calls go through the inbox, and name their sender.
    fn may_be_of_world(&self, call: InboxSeq) -> bool {
        let is_outside = |consumed: &Consumed| consumed.outside_calls.binary_search(&call).is_ok();
        !call.is_direct() && !self.consumed.as_ref().is_some_and(is_outside)
    }

    /// Whether the world is paused, and that it has more to do.
    async fn note_state<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        if self.paused.is_some() {
            let meta = require_world(tx, universe, world).await?;
            let paused_from = (self.paused == Some(true)).then(|| self.records.start().height);
            let after = WorldMeta { paused: self.paused, paused_from, ..meta.clone() };
            world_meta::write(tx, universe, world, Some(&meta), &after)?;
            child_work::look_again(tx, universe, world).await?;
        }
        if self.ready {
            let priority = require_world(tx, universe, world).await?.ready_priority();
            ready::ensure(tx, universe, world, priority, &ReadyHint { at_ns: self.now_ns }).await?;
        }
        Ok(())
    }

    /// Gives each caller its reply: a world as the receipt of its effect, all others under a key. Says which worlds got one.
    async fn reply<T: Transaction>(&self, tx: &mut T) -> Result<Vec<(UniverseId, WorldId)>, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let own = u16::try_from(self.receipts.len()).unwrap_or(u16::MAX); // a turn has far fewer
        let mut receipts = Receipts::new((universe, world), own);
        for (height, answer) in self.stored_replies() {
            let outcome = match self.records.replies().first() {
                Some((_, first)) if planted(Mutant::RepliesMixed) => &first.outcome,
                _ => &answer.outcome,
            };
            let replied = Replied { universe, world, to: answer.to, outcome, now_ns: self.now_ns };
            if self.may_be_of_world(answer.to) && answer_caller(tx, &replied, &mut receipts).await? {
                continue;
            }
            // A step that fails on behalf of a call says nothing about a reply that the program gave before.
            let is_failure = matches!(answer.outcome, ReplyOutcome::Failed(..));
            if is_failure && reply::read(tx, universe, world, answer.to).await?.is_some() {
                continue;
            }
            let stored = StoredReply { outcome: outcome.clone(), height: *height };
            reply::write(tx, universe, world, answer.to, &stored)?;
        }
        Ok(receipts.takers())
    }

    /// Keeps the index of failed steps in step with the records.
    async fn note_failures<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let Failures { are_new, count, last } = self.records.failures();
        match last {
            None if *are_new => world_failure::remove(tx, universe, world),
            None => Ok(()),
            Some((height, code, reason)) => {
                let before = if *are_new { None } else { Box::pin(world_failure::read(tx, universe, world)).await? };
                let count = before.map_or(0, |before| before.count).saturating_add(*count);
                let (code, reason) = (code.clone(), reason.clone());
                let failure = WorldFailure { count, height: *height, code, reason, at_ns: self.now_ns };
                world_failure::write(tx, universe, world, &failure)
            }
        }
    }

    /// Nothing is published that the journal does not announce, in this very turn.
    fn check_published(&self) -> Result<(), JournalError> {
        let count = self.effects.len() + self.timers.len();
        if count > limits::TURN_INTENTS_MAX {
            return Err(JournalError::BatchInvalid { records: count, max: limits::TURN_INTENTS_MAX });
        }
        let effects = self.effects.iter().map(|item| (item.world, item.intent, item.height));
        let timers = self.timers.iter().map(|item| (item.world, item.intent, item.height));
        let announced = |(world, intent, height): &(_, IntentHash, Height)| {
            *world == self.fence.world && self.records.announces(*intent, *height)
        };
        match effects.chain(timers).find(|published| !announced(published)) {
            Some((_, intent, height)) => Err(JournalError::IntentNotJournaled { intent, height }),
            None => Ok(()),
        }
    }

    /// Whether nobody can have published an intent before: its record is one of this turn's.
    fn is_new(&self, height: Height) -> bool {
        height >= self.records.start().height
    }

    /// Says which of them are claimed from the start.
    pub(in crate::protocol) async fn publish_effects<T: Transaction>(
        &self,
        tx: &mut T,
    ) -> Result<Vec<u16>, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let (mut kinds, mut claimed, mut children) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (index, item) in (0u16..).zip(&self.effects).filter(|_| !planted(Mutant::PublishApart)) {
            if item.kind == CHILD_SPAWN {
                children.push(item);
                continue;
            }
            if !self.is_new(item.height) && effect_dedupe::read(tx, universe, world, item.intent).await?.is_some() {
                continue;
            }
            match self.in_process.claims.get(usize::from(index)).copied().flatten() {
                Some(claim) if self.is_new(item.height) => {
                    effect_inflight::publish(tx, universe, index, &claim, item, Some(EffectStatus::Pending))?;
                    claimed.push(index);
                    continue;
                }
                // What was inherited must be found by who asks whether it was published.
                Some(claim) => {
                    effect_inflight::publish(tx, universe, index, &claim, item, None)?;
                    claimed.push(index);
                }
                None => {
                    effect_pending::publish(tx, universe, index, item)?;
                    kinds.insert(item.kind.as_str());
                }
            }
            let dedupe = EffectDedupe::new(EffectStatus::Pending, self.now_ns);
            effect_dedupe::write(tx, universe, world, item.intent, &dedupe)?;
        }
        kinds.into_iter().try_for_each(|kind| queue_notify::bump(tx, universe, kind))?;
        spawn_children(tx, universe, &children, self.now_ns).await?;
        Ok(claimed)
    }

    /// The low-water mark is read with a conflict: a scanner that raises it meanwhile would never look at
    /// the place that was chosen below it.
    pub(in crate::protocol) async fn publish_timers<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        for item in &self.timers {
            if !self.is_new(item.height) && timer_dedupe::read(tx, universe, world, item.intent).await?.is_some() {
                continue;
            }
            let shard = timer_due::shard(item.intent);
            let mark = low_water::read(tx, universe, Queue::Timers, timer_due::queue_shard(shard)).await?;
            let place = timer_due::place(item.intent, item.deliver_at_ns, LowWater::time_ns(mark));
            timer_due::write(tx, universe, place, item)?;
            let status = TimerStatus::Due { place_ns: place.place_ns, attempts: 0 };
            timer_dedupe::write(tx, universe, world, item.intent, &TimerDedupe { status, at_ns: self.now_ns })?;
        }
        if self.timers.is_empty() { Ok(()) } else { queue_notify::bump(tx, universe, TIMERS) }
    }

    /// Puts the receipts into the world's own inbox, each once.
    pub(in crate::protocol) async fn answer<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        self.answer_after(tx, 0).await
    }

    /// As [`Self::answer`], behind as many items as the transaction has enqueued before.
    pub(in crate::protocol) async fn answer_after<T: Transaction>(
        &self,
        tx: &mut T,
        before: u16,
    ) -> Result<(), StoreError> {
        if self.receipts.is_empty() {
            return Ok(());
        }
        let Fence { universe, world, .. } = self.fence;
        Enqueue::of_receipts(universe, world, &self.receipts, self.now_ns)?.after(before).run_within(tx).await.map(drop)
    }

    /// A cancelled timer is taken out of the queue; a cancelled effect is marked, and its next claimer drops it.
    /// Effects that were delivered before stay delivered, with this very turn, too. An effect of which nothing is known, not even a receipt, is
    /// in a slot: the mark stays until the slot is free.
    async fn withdraw<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let at_ns = self.now_ns;
        for &intent in self.records.cancelled() {
            let timer = timer_dedupe::read(tx, universe, world, intent).await?;
            if let Some(TimerDedupe { status: TimerStatus::Due { place_ns, .. }, .. }) = timer {
                let place = TimerPlace { place_ns, intent };
                tx.delete(timer_due::key(universe, timer_due::shard(intent), place).as_bytes())?;
                let dedupe = TimerDedupe { status: TimerStatus::Cancelled, at_ns };
                timer_dedupe::write(tx, universe, world, intent, &dedupe)?;
                self.end_dedupe(tx, DedupeKind::Timer, intent)?;
            }
            if timer.is_some() || self.in_process.answered.iter().any(|answered| answered.claim.intent == intent) {
                continue;
            }
            match effect_dedupe::read(tx, universe, world, intent).await?.map(|dedupe| dedupe.status) {
                Some(EffectStatus::Pending) => self.end_dedupe(tx, DedupeKind::Effect, intent)?,
                None if cancel_child::withdraw(tx, universe, world, (intent, at_ns)).await? => continue,
                None if inbox_dedupe::read(tx, universe, world, DedupeId::receipt(intent)).await?.is_none() => {}
                _ => continue,
            }
            let dedupe = EffectDedupe::new(EffectStatus::Cancelled, at_ns);
            effect_dedupe::write(tx, universe, world, intent, &dedupe)?;
        }
        Ok(())
    }

    /// A withdrawn intent is remembered for a while. A worker that finds it in a queue after that drops it too, because
    /// nothing knows of it any more.
    fn end_dedupe<T: Transaction>(&self, tx: &mut T, kind: DedupeKind, intent: IntentHash) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let expires_at_ns = self.now_ns.saturating_add(limits::DEDUPE_WINDOW_NS);
        let ending = Ending::new(kind, world, Hash::from_bytes(*intent.as_bytes()), expires_at_ns);
        dedupe_bucket::write(tx, universe, &ending)
    }
}

impl AnsweredEffect {
    /// The intent has its receipt with the turn that does this, if the claim is held and the world waits.
    async fn settle<T: Transaction>(&self, tx: &mut T, now_ns: u64) -> Result<(), StoreError> {
        let EffectClaim { universe, queue_shard, seq, world, intent, .. } = self.claim;
        let lost = EffectError::ClaimLost { world, intent };
        match self.claim.inflight(tx).await? {
            None => Err(lost.into()),
            Some(held) if held.is_in_slot() => {
                Ok(tx.delete(effect_inflight::key(universe, queue_shard, seq).as_bytes())?)
            }
            Some(_) => match self.claim.held(tx).await? {
                Held::Mine(held) => {
                    let failed = failed_attempts(tx, &self.claim, held.claim.attempt > 1, None).await?;
                    complete(tx, &self.claim, self.status, None, failed, now_ns, limits::DEDUPE_WINDOW_NS)
                }
                Held::Withdrawn(_) | Held::Answered | Held::Over | Held::Lost => Err(lost.into()),
            },
        }
    }
}

/// A cursor is where the caller saw it, and only rises.
pub(in crate::protocol) fn plan_cursor(
    expected: Option<InboxSeq>,
    actual: Option<InboxSeq>,
    to: InboxSeq,
) -> Result<(), InboxError> {
    if actual.is_some_and(|at| to <= at) {
        return Err(InboxError::CursorRegressed { at: actual, to });
    }
    if expected != actual {
        return Err(InboxError::CursorMoved { expected, actual });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Stamp;

    fn seq(n: u64) -> InboxSeq {
        InboxSeq::new(Stamp::new(n, 0), 0)
    }

    #[test]
    fn a_cursor_only_rises_from_where_it_was_seen() {
        assert_eq!(plan_cursor(None, None, seq(1)), Ok(()));
        assert_eq!(plan_cursor(Some(seq(1)), Some(seq(1)), seq(2)), Ok(()));
        for to in [1, 2] {
            let regressed = plan_cursor(Some(seq(2)), Some(seq(2)), seq(to));
            assert!(matches!(regressed, Err(InboxError::CursorRegressed { .. })));
        }
        assert!(matches!(plan_cursor(None, Some(seq(1)), seq(2)), Err(InboxError::CursorMoved { .. })));
        assert!(matches!(plan_cursor(Some(seq(2)), Some(seq(1)), seq(3)), Err(InboxError::CursorMoved { .. })));
    }
}
