//! Reap effects whose claim expired.
//!
//! Guarantees: a claim whose deadline has passed is an attempt that failed: the item is tried again under its own
//! sequence while its budget lasts, and ends as a `timeout` receipt after that. The clock only decides when to try:
//! the holder and the reaper read the same key, and one of them conflicts. A claim that cannot be read, or whose world
//! cannot take the receipt, becomes a dead letter and does not stop the others.
//! A process that knows that the one before it under its own worker's number is gone ends the claims of that one at once.
//! Unknown commit: run again; what was reaped is not there any more.

use crate::protocol::{EffectClaim, FailEffect, Failed, Failure, Repeat, settle_effect};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        QueueShard, Shard, Span,
        dead_letter::DeadLetter,
        effect_dedupe,
        effect_inflight::{self, EffectInflight},
        effect_pending,
        low_water::{self, LowWater},
        queue::{Claim, Queue, QueueSeq},
    },
};
use bytes::Bytes;
use mundi_engine::{Read, ReadPlan, Transaction};
use mundi_model::{
    Code, Coded, Stamp, UniverseId, WorkerId, cbor, limits,
    mutants::{Mutant, planted},
};

/// Which queue shards of some kinds a reaper has work in: one look at all of them. Reads only, and without a conflict.
#[derive(Debug, Clone)]
pub struct ShardsToReap {
    pub universe: UniverseId,
    pub kinds: Vec<String>,
    /// As in [`ReapEffects`].
    pub items_max: usize,
    pub now_ns: u64,
    /// As in [`ReapEffects`].
    pub gone: Option<WorkerId>,
}

impl Protocol for ShardsToReap {
    type Output = Vec<QueueShard>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(self.queue_shards().flat_map(|queue_shard| marks(self.universe, queue_shard)))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<QueueShard>, StoreError> {
        let universe = self.universe;
        let mut looks = Vec::new();
        for queue_shard in self.queue_shards() {
            let mark = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::EffectClaims, queue_shard).await?);
            let pending = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::Effects, queue_shard).await?);
            let held = effect_inflight::from(universe, queue_shard, mark);
            looks.push((queue_shard, mark, pending, held.read(self.items_max.min(limits::CLAIMS_MAX)).snapshot()));
        }
        tx.prefetch(|| looks.iter().map(|(_, _, _, held)| Read::Range(held.clone())));
        let mut wanting = Vec::new();
        for (queue_shard, mark, pending, held) in looks {
            let page = tx.range(held).await?;
            let stands = |bytes: &Bytes, key: &Bytes| {
                effect_inflight::decode(key, bytes).is_ok_and(|held| stands(&held.claim, self.now_ns, self.gone))
            };
            let all_stand = page.items.iter().all(|(key, bytes)| stands(bytes, key));
            let first =
                page.items.first().map(|(key, _)| effect_inflight::parse(universe, queue_shard, key)).transpose()?;
            let clear_to = [first, pending].into_iter().flatten().min();
            if !all_stand || clear_to.is_some_and(|clear_to| mark.is_none_or(|mark| clear_to > mark)) {
                wanting.push(queue_shard);
            }
        }
        Ok(wanting)
    }
}

impl ShardsToReap {
    fn queue_shards(&self) -> impl Iterator<Item = QueueShard> {
        self.kinds.iter().flat_map(|kind| Shard::all().map(|shard| QueueShard::new(kind, shard)))
    }
}

/// The marks that say where the claims of a queue shard begin.
fn marks(universe: UniverseId, queue_shard: QueueShard) -> [Read; 2] {
    [Queue::EffectClaims, Queue::Effects].map(|queue| low_water::key(universe, queue, queue_shard).planned())
}

/// One queue shard, up to `items_max` claims of it.
#[derive(Debug, Clone, Copy)]
pub struct ReapEffects {
    pub universe: UniverseId,
    pub queue_shard: QueueShard,
    /// Claims came and went past the queue, whose mark says nothing of them.
    pub touched: bool,
    pub items_max: usize,
    pub now_ns: u64,
    /// Claims under this number are those of a process that is gone: they are ended whatever their deadline says.
    pub gone: Option<WorkerId>,
}

fn stands(claim: &Claim, now_ns: u64, gone: Option<WorkerId>) -> bool {
    let is_of_gone = gone.is_some_and(|gone| claim.worker == gone || planted(Mutant::ClaimsStolen));
    claim.deadline_ns > now_ns && !is_of_gone
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reaped {
    pub retrying: usize,
    pub answered: usize,
    pub dropped: usize,
    pub buried: usize,
    /// The earliest deadline among the claims that stand.
    pub next_deadline_ns: Option<u64>,
}

impl Protocol for ReapEffects {
    type Output = Reaped;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        ReadPlan::reads(marks(self.universe, self.queue_shard))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Reaped, StoreError> {
        let Self { universe, queue_shard, .. } = *self;
        let mark = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::EffectClaims, queue_shard).await?);
        let pending = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::Effects, queue_shard).await?);
        let free_to = if self.touched { Some(self.free_to(tx, pending).await?) } else { pending };
        let span = effect_inflight::from(universe, queue_shard, mark);
        let page = tx.range(span.read(self.items_max.min(limits::CLAIMS_MAX)).snapshot()).await?;
        let mut reaped = Reaped::default();
        let mut standing = None;
        for (key, bytes) in &page.items {
            let seq = effect_inflight::parse(universe, queue_shard, key)?;
            match self.reap(tx, seq, key, bytes, &mut reaped).await? {
                None => {}
                Some(deadline_ns) => {
                    standing = standing.or(Some(seq));
                    let next_ns = reaped.next_deadline_ns.map_or(deadline_ns, |next_ns| next_ns.min(deadline_ns));
                    reaped.next_deadline_ns = Some(next_ns);
                }
            }
        }
        let last =
            page.items.last().filter(|_| page.more).map(|(key, _)| effect_inflight::parse(universe, queue_shard, key));
        let clear_to = [standing, last.transpose()?, free_to].into_iter().flatten().min();
        if let Some(clear_to) = clear_to.filter(|clear_to| mark.is_none_or(|mark| *clear_to > mark)) {
            // With a conflict: a claim below the mark lowers it meanwhile, and nobody would ever look at that claim.
            low_water::read(tx, universe, Queue::EffectClaims, queue_shard).await?;
            let below = Span { start: span.start, end: effect_inflight::key(universe, queue_shard, clear_to) };
            low_water::raise(tx, universe, Queue::EffectClaims, queue_shard, &below, &LowWater::Seq(clear_to)).await?;
        }
        Ok(reaped)
    }
}

impl ReapEffects {
    /// Up to where nothing will be claimed that was not claimed before: what waits is claimed at its place, and what is published
    /// later has a larger one.
    async fn free_to<T: Transaction>(&self, tx: &mut T, pending: Option<QueueSeq>) -> Result<QueueSeq, StoreError> {
        let waiting = effect_pending::from(self.universe, self.queue_shard, pending).read(1).snapshot();
        match tx.range(waiting).await?.items.first() {
            Some((key, _)) => effect_pending::parse(self.universe, self.queue_shard, key),
            None => Ok(QueueSeq::new(Stamp::new(tx.version().await?, 0), 0)),
        }
    }

    /// Ends one claim, or says until when it stands.
    async fn reap<T: Transaction>(
        &self,
        tx: &mut T,
        seq: QueueSeq,
        key: &Bytes,
        bytes: &Bytes,
        reaped: &mut Reaped,
    ) -> Result<Option<u64>, StoreError> {
        let held = effect_inflight::decode(key, bytes);
        if let Ok(EffectInflight { claim, .. }) = &held
            && stands(claim, self.now_ns, self.gone)
        {
            return Ok(Some(claim.deadline_ns));
        }
        tx.get(key).await?; // a holder that extends, answers or fails meanwhile conflicts
        let ended = match &held {
            Ok(held) => self.end(tx, seq, held, reaped).await,
            Err(damage) => Err(damage.clone()),
        };
        match ended {
            Ok(Failed::Retrying { .. }) => reaped.retrying += 1,
            Ok(Failed::Answered(_)) => reaped.answered += 1,
            Ok(Failed::Dropped | Failed::Over | Failed::Lost) => reaped.dropped += 1,
            Err(error @ (StoreError::Damaged(_) | StoreError::World(_) | StoreError::Inbox(_))) => {
                self.bury(tx, key, held.as_ref().ok(), bytes, &error, reaped).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    async fn end<T: Transaction>(
        &self,
        tx: &mut T,
        seq: QueueSeq,
        held: &EffectInflight,
        reaped: &Reaped,
    ) -> Result<Failed, StoreError> {
        let (universe, world, intent) = (self.universe, held.item.world, held.item.intent);
        let claim =
            EffectClaim { universe, queue_shard: self.queue_shard, seq, token: held.claim.token, world, intent };
        if !settle_effect::is_awaited(tx, universe, &held.item, held.is_in_slot()).await? {
            return settle_effect::remove_withdrawn(tx, &claim, held.is_in_slot()).map(|()| Failed::Dropped);
        }
        let worker = held.claim.worker;
        let reason = match held.claim.deadline_ns > self.now_ns {
            true => format!("the process of {worker} ended before it answered"),
            false => format!("{worker} did not extend its claim"),
        };
        let failure = Failure { code: Code::EffectClaimExpired, reason, repeat: Repeat::Backoff };
        let (now_ns, dedupe_window_ns) = (self.now_ns, limits::DEDUPE_WINDOW_NS);
        let fail = FailEffect {
            claim,
            failure,
            adapter: "reaper".to_owned(),
            signature: None,
            params: None,
            now_ns,
            dedupe_window_ns,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a transaction reaps far fewer")]
        let receipts_before = reaped.answered as u16;
        fail.end_attempt(tx, held, receipts_before).await
    }

    async fn bury<T: Transaction>(
        &self,
        tx: &mut T,
        key: &Bytes,
        held: Option<&EffectInflight>,
        bytes: &Bytes,
        error: &StoreError,
        reaped: &mut Reaped,
    ) -> Result<(), StoreError> {
        let letter = DeadLetter {
            world: held.map(|held| held.item.world),
            code: error.code().to_string(),
            reason: error.to_string(),
            attempts: held.map_or(0, |held| held.claim.attempt),
            item: held.map_or_else(|| bytes.to_vec(), |held| cbor::encode(&held.item)),
            at_ns: self.now_ns,
            worker: None,
        };
        tx.delete(key)?;
        if let Some(held) = held
            && let Ok(None) = effect_dedupe::read(tx, self.universe, held.item.world, held.item.intent).await
        {
            settle_effect::leave_slot(tx, self.universe, held)?; // who replays the letter finds that it is pending
        }
        #[expect(clippy::cast_possible_truncation, reason = "a transaction reaps far fewer")]
        let mut index = reaped.buried as u16;
        reaped.buried += 1;
        settle_effect::bury(tx, self.universe, Queue::Effects, &mut index, &letter)
    }
}
