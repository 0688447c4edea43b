//! Claim effects.
//!
//! Guarantees: an item has at most one holder at a time; the holder's token is new with each claim, so a claim that was
//! lost is worth nothing. The item keeps its sequence. Nothing is claimed before its not-before time, nor beyond the rate
//! that its world's manifest allows, nor beyond what its kind may have in the whole universe: an item that must wait for its turn gets the time of it at once, and lies aside
//! until then, so that it is out of the way. What was cancelled, and what belongs to a world that is gone, is dropped
//! here. An item that cannot be read becomes a dead letter and does not stop those behind it.
//!
//! An effect that names a lease of a pool is claimed only in a transaction that finds its world to be the holder, under the same epoch:
//! a revoke, an expiry or a release that commits first makes the claim conflict, or find the lease gone. Such an effect is not begun, and
//! its receipt says so at once (`STALE_EPOCH`). Effects with a lease always go through the queue, so there is no other place where one begins.
//!
//! Items are looked for from the queue shard's low-water mark on, never from its prefix, and without a conflict: only those
//! that are taken are read with one, so two workers that look at the same queue shard collide only over the same item. All queue shards are
//! looked into before anything is taken, so that an engine at the other end of a line makes three trips and not sixty.
//!
//! Unknown commit: reported. [`claim_effects`] looks for claims under the token, which is new with each claim, and runs again
//! only if there are none. What is applied even later the reaper gives back once its time is up, as it does for a worker that crashed.

use crate::protocol::{
    Answer, Failure, FindClaims, Repeat, WokenBy, fail_effect,
    settle_effect::{Held, Terminal, answer, bury, defer},
};
use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    keyspace::{
        QueueShard, Shard,
        dead_letter::DeadLetter,
        effect_attempt::{self, EffectAttempts},
        effect_dedupe::{self, EffectDedupe, EffectStatus},
        effect_gate,
        effect_inflight::{self, EffectInflight},
        effect_pending::{self, EffectItem, EffectLease, RateTerms},
        effect_place::{EffectPlace, EffectStage},
        effect_rate::{self, EffectRate},
        effect_retry::{self, RetryPlace},
        lease_authority,
        low_water::{self, LowWater},
        put,
        queue::{Claim, Queue, QueueSeq},
    },
    run,
    run::ATTEMPTS_MAX,
};
use bytes::Bytes;
use mundi_engine::{CommitError, Engine, Page, Read, ReadPlan, Transaction};
use mundi_model::{
    Code, Coded, IntentHash, UniverseId, WorkerId, WorldId, limits,
    mutants::{Mutant, planted},
    pool::LeaseAuthority,
    record::ReceiptStatus,
};

/// How far a mark in time is behind what was seen before it is moved: each move makes those conflict who put
/// something into the queue shard at that moment.
pub(in crate::protocol) const MARK_STEP_NS: u64 = 1_000_000_000;

/// So many queue shards fill a claim when all are full: more would be fetched than can be taken.
const SHARDS_FILL: usize = 4;
/// The items that a look into one queue shard takes at least, if it may.
const SHARD_ITEMS_MIN: usize = 16;

/// Up to `items_max` effects of one kind.
#[derive(Debug, Clone)]
pub struct ClaimEffects {
    pub universe: UniverseId,
    pub kind: String,
    pub worker: WorkerId,
    /// Random, and new with each claim.
    pub token: [u8; 16],
    pub items_max: usize,
    pub ttl_ns: u64,
    pub now_ns: u64,
    /// Where to begin. Workers that begin at different shards rarely meet.
    pub first: Shard,
    /// The cap of the kind in the whole universe, for all workers. All workers must be configured the same.
    pub cap: KindCap,
}

/// Limits of a kind of effect over all worlds and workers of a universe. Without one, claims of it do not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCap {
    /// How many are in progress at a time.
    pub calls_max: Option<usize>,
    pub rate: Option<RateTerms>,
}

impl KindCap {
    fn is_limited(&self) -> bool {
        self.calls_max.is_some() || self.rate.is_some()
    }
}

/// The result of a look into the queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    pub effects: Vec<ClaimedEffect>,
    /// Another look may find more, also if this one gave nothing: items may have been put aside or dropped.
    pub more: bool,
    /// The most effects are in progress: there is room again when one of them is answered.
    pub capped: bool,
    /// When the next one that was put aside is due, unless another look may find more.
    pub next_retry_ns: Option<u64>,
}

/// An effect that is ours until its deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEffect {
    pub proof: EffectClaim,
    pub claim: Claim,
    pub item: EffectItem,
}

/// Proof of the right to answer an effect, or to give it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectClaim {
    pub universe: UniverseId,
    pub queue_shard: QueueShard,
    pub seq: QueueSeq,
    pub token: [u8; 16],
    pub world: WorldId,
    pub intent: IntentHash,
}

impl EffectClaim {
    /// The claim on an effect of this kind.
    pub fn of(
        universe: UniverseId,
        kind: &str,
        seq: QueueSeq,
        token: [u8; 16],
        world: WorldId,
        intent: IntentHash,
    ) -> Self {
        Self { universe, queue_shard: QueueShard::of(kind, intent), seq, token, world, intent }
    }

    /// Where the effect stands while it is claimed.
    pub fn place(&self) -> EffectPlace {
        EffectPlace { stage: EffectStage::Claimed, queue_shard: self.queue_shard, place_ns: 0, seq: self.seq }
    }
}

impl Protocol for ClaimEffects {
    type Output = Claims;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::Report
    }

    /// The marks of all queue shards, and what a limited kind reads before them.
    fn read_plan(&self) -> ReadPlan {
        let gate = self.cap.is_limited().then(|| effect_gate::key(self.universe, &self.kind).planned());
        let claims = self.cap.calls_max.map(|_| Queue::EffectClaims);
        let queues = [Queue::EffectRetries, Queue::Effects].into_iter().chain(claims);
        let marks =
            |queue_shard| queues.clone().map(move |queue| low_water::key(self.universe, queue, queue_shard).planned());
        ReadPlan::reads(gate.into_iter().chain(QueueShard::all(&self.kind, self.first).flat_map(marks)))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Claims, StoreError> {
        let gate = match self.cap.is_limited() {
            false => None,
            true => Some(effect_gate::read(tx, self.universe, &self.kind).await?.unwrap_or(EffectRate { even_ns: 0 })),
        };
        let mut taken = Taken { claimed: Vec::new(), buried: 0, refused: 0, more: false, next_retry_ns: None, gate };
        let room = self.room(tx).await?;
        if room == 0 {
            return Ok(Claims { capped: true, ..Claims::default() });
        }
        let items_max = self.items_max.min(limits::CLAIMS_MAX).min(room);
        let looked = self.look(tx, items_max, &mut taken).await?;
        tx.prefetch(|| looked.iter().flat_map(|looked| self.reads_to_take(looked)).collect::<Vec<_>>());
        for looked in looked {
            self.take_all(tx, looked, &mut taken).await?;
        }
        let capped = taken.claimed.len() == room;
        let more = !capped && (taken.more || taken.claimed.len() == items_max);
        if let Some(gate) = taken.gate.filter(|after| Some(*after) != gate || !taken.claimed.is_empty()) {
            effect_gate::write(tx, self.universe, &self.kind, &gate)?;
        }
        Ok(Claims { effects: taken.claimed, more, capped, next_retry_ns: taken.next_retry_ns.filter(|_| !more) })
    }
}

/// Claims, and recognizes what a commit with an unknown result has claimed: nobody else works on that.
pub async fn claim_effects<E: Engine>(
    engine: &E,
    clock: &dyn Clock,
    claim: &ClaimEffects,
) -> Result<Claims, StoreError> {
    let mut attempt = 1;
    loop {
        let unknown = match run(engine, clock, claim).await {
            Err(error @ StoreError::Commit(CommitError::Unknown(_))) => error,
            claimed => return claimed.map(|claimed| claimed.output),
        };
        let effects = run(engine, clock, &claim.find_again()).await?.output;
        if !effects.is_empty() {
            return Ok(Claims { effects, more: true, ..Claims::default() });
        }
        if attempt == ATTEMPTS_MAX {
            return Err(unknown);
        }
        attempt += 1;
    }
}

/// The items that one transaction took out of the queue.
struct Taken {
    claimed: Vec<ClaimedEffect>,
    /// Dead letters of one commit are distinguished by their index.
    buried: u16,
    /// Receipts of one commit are, too.
    refused: u16,
    more: bool,
    next_retry_ns: Option<u64>,
    /// Of a kind that is limited in the whole universe.
    gate: Option<EffectRate>,
}

impl Taken {
    fn retry_at(&mut self, at_ns: u64) {
        self.next_retry_ns = Some(self.next_retry_ns.map_or(at_ns, |next_ns| next_ns.min(at_ns)));
    }
}

/// The items of a queue shard, in the order in which they are taken.
struct Looked {
    queue_shard: QueueShard,
    items: Vec<Found>,
    /// Where the look for retries began, and the place of the last one that it found.
    retries_ns: (u64, u64),
    /// The last of those that were never tried.
    pending: Option<QueueSeq>,
}

struct Found {
    seq: QueueSeq,
    key: Bytes,
    bytes: Bytes,
    item: Result<EffectItem, StoreError>,
}

impl ClaimEffects {
    /// Finds what was claimed, if anything was.
    pub fn find_again(&self) -> FindClaims {
        let queue_shards = QueueShard::all(&self.kind, self.first).collect();
        FindClaims { universe: self.universe, queue_shards, token: self.token }
    }

    /// How many more may be in progress. Counted without a conflict: answers only make room, and claims meet at the gate.
    async fn room<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let Some(mut room) = self.cap.calls_max else { return Ok(usize::MAX) };
        let mut spans = Vec::new();
        for queue_shard in QueueShard::all(&self.kind, self.first) {
            let mark = low_water::read_snapshot(tx, self.universe, Queue::EffectClaims, queue_shard).await?;
            spans.push(
                effect_inflight::from(self.universe, queue_shard, LowWater::seq(mark)).read(room.max(1)).snapshot(),
            );
        }
        tx.prefetch(|| spans.iter().cloned().map(Read::Range));
        for span in spans {
            room = room.saturating_sub(tx.range(span).await?.items.len());
        }
        Ok(room)
    }

    /// Looks into all queue shards, until as much was found as may be taken.
    async fn look<T: Transaction>(
        &self,
        tx: &mut T,
        items_max: usize,
        taken: &mut Taken,
    ) -> Result<Vec<Looked>, StoreError> {
        let universe = self.universe;
        let queue_shard_max = items_max.min(SHARD_ITEMS_MIN.max(items_max.div_ceil(SHARDS_FILL)));
        let mut reads = Vec::new();
        for queue_shard in QueueShard::all(&self.kind, self.first) {
            let from_ns =
                LowWater::time_ns(low_water::read_snapshot(tx, universe, Queue::EffectRetries, queue_shard).await?);
            let mark = LowWater::seq(low_water::read_snapshot(tx, universe, Queue::Effects, queue_shard).await?);
            // Also those that are not due yet: the first of them says when to look again.
            let retries =
                effect_retry::between(universe, queue_shard, from_ns, u64::MAX).read(queue_shard_max).snapshot();
            let pending = effect_pending::from(universe, queue_shard, mark).read(queue_shard_max).snapshot();
            reads.push((queue_shard, from_ns, [retries, pending]));
        }
        tx.prefetch(|| reads.iter().flat_map(|(_, _, reads)| reads.clone()).map(Read::Range));
        let (mut looked, mut left) = (Vec::with_capacity(reads.len()), items_max);
        for (queue_shard, from_ns, [retries, pending]) in reads {
            if left == 0 {
                taken.more = true; // perhaps
                break;
            }
            let mut of_queue_shard =
                Looked { queue_shard, items: Vec::new(), retries_ns: (from_ns, from_ns), pending: None };
            self.find_retries(tx.range(retries).await?, left, &mut of_queue_shard, taken)?;
            let left_of_queue_shard = left - of_queue_shard.items.len();
            self.find_pending(tx.range(pending).await?, left_of_queue_shard, &mut of_queue_shard, taken)?;
            left -= of_queue_shard.items.len();
            looked.push(of_queue_shard);
        }
        Ok(looked)
    }

    /// Those whose next attempt is due; they have waited longest.
    fn find_retries(&self, page: Page, left: usize, looked: &mut Looked, taken: &mut Taken) -> Result<(), StoreError> {
        for (key, bytes) in page.items {
            let RetryPlace { place_ns, seq } = effect_retry::parse(self.universe, looked.queue_shard, &key)?;
            if place_ns > self.now_ns {
                taken.retry_at(place_ns);
                return Ok(());
            }
            if looked.items.len() == left {
                taken.more = true;
                return Ok(());
            }
            let Some(found) = self.found(seq, key, bytes) else { return Ok(()) };
            looked.items.push(found);
            looked.retries_ns.1 = place_ns;
        }
        taken.more |= page.more;
        Ok(())
    }

    /// Those that were never tried. Nothing ever appears below one that was seen, so the mark needs no conflict.
    fn find_pending(&self, page: Page, left: usize, looked: &mut Looked, taken: &mut Taken) -> Result<(), StoreError> {
        taken.more |= page.more || page.items.len() > left;
        for (key, bytes) in page.items.into_iter().take(left) {
            let seq = effect_pending::parse(self.universe, looked.queue_shard, &key)?;
            looked.pending = Some(seq);
            let Some(found) = self.found(seq, key, bytes) else { return Ok(()) };
            looked.items.push(found);
        }
        Ok(())
    }

    /// `None` for an item of another kind of the same hash: it stays where it is.
    fn found(&self, seq: QueueSeq, key: Bytes, bytes: Bytes) -> Option<Found> {
        let item = effect_pending::decode(&key, &bytes);
        let is_foreign = item.as_ref().is_ok_and(|item| item.kind != self.kind);
        (!is_foreign).then_some(Found { seq, key, bytes, item })
    }

    /// The reads when the items are taken.
    fn reads_to_take(&self, looked: &Looked) -> Vec<Read> {
        let (universe, queue_shard) = (self.universe, looked.queue_shard);
        let mut reads = Vec::with_capacity(1 + 3 * looked.items.len());
        for Found { seq, key, item, .. } in &looked.items {
            reads.extend([Read::get(key), effect_attempt::key(universe, queue_shard.shard(), *seq).planned()]);
            reads.extend(item.iter().map(|item| effect_dedupe::key(universe, item.world, item.intent).planned()));
            let leased = item.iter().filter_map(|item| item.lease.as_ref());
            reads.extend(leased.map(|it| lease_authority::key(universe, it.world, it.lease_id).planned()));
            let rated = item.iter().filter(|item| item.terms.rate.is_some());
            reads.extend(rated.map(|item| effect_rate::key(universe, item.world, &item.kind).planned()));
        }
        if !reads.is_empty() {
            reads.push(low_water::key(universe, Queue::EffectClaims, queue_shard).planned());
        }
        reads
    }

    async fn take_all<T: Transaction>(&self, tx: &mut T, looked: Looked, taken: &mut Taken) -> Result<(), StoreError> {
        let (universe, Looked { queue_shard, items, retries_ns: (from_ns, mark_ns), pending }) =
            (self.universe, looked);
        for found in items {
            self.take(tx, queue_shard, found, taken).await?;
        }
        if mark_ns >= from_ns.saturating_add(MARK_STEP_NS) {
            let below = effect_retry::between(universe, queue_shard, from_ns, mark_ns - 1);
            low_water::raise(tx, universe, Queue::EffectRetries, queue_shard, &below, &LowWater::TimeNs(mark_ns))
                .await?;
        }
        match pending {
            Some(seq) => low_water::write(tx, universe, Queue::Effects, queue_shard, &LowWater::Seq(seq)),
            None => Ok(()),
        }
    }

    /// Takes an item out of its place: claimed, deferred, or dropped.
    async fn take<T: Transaction>(
        &self,
        tx: &mut T,
        queue_shard: QueueShard,
        Found { seq, key, bytes, item }: Found,
        taken: &mut Taken,
    ) -> Result<(), StoreError> {
        let universe = self.universe;
        tx.get(&key).await?; // whoever takes the same item conflicts
        tx.delete(&key)?;
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                let letter = DeadLetter {
                    world: None,
                    code: error.code().to_string(),
                    reason: error.to_string(),
                    attempts: 0,
                    item: bytes.to_vec(),
                    at_ns: self.now_ns,
                    worker: None,
                };
                return bury(tx, universe, Queue::Effects, &mut taken.buried, &letter);
            }
        };
        let attempts = effect_attempt::read(tx, universe, queue_shard.shard(), seq).await?;
        let status = effect_dedupe::read(tx, universe, item.world, item.intent).await?;
        if !matches!(status, Some(EffectDedupe { status: EffectStatus::Pending, .. })) {
            return Ok(tx.delete(effect_attempt::key(universe, queue_shard.shard(), seq).as_bytes())?);
        }
        let granted = attempts.as_ref().is_some_and(|attempts| attempts.granted);
        if !granted && let Some(turn_ns) = self.turn(tx, &item, &mut taken.gate).await? {
            let attempts = EffectAttempts { not_before_ns: turn_ns, granted: true, ..attempts.unwrap_or_default() };
            taken.retry_at(turn_ns);
            return defer(tx, universe, queue_shard, seq, &item, &attempts).await.map(drop);
        }
        let attempt = attempts.map_or(0, |attempts| attempts.attempts).saturating_add(1);
        if let Some(lease) = &item.lease
            && !is_held(tx, universe, item.world, (lease, attempt)).await?
        {
            return self.refuse(tx, queue_shard, seq, (&item, lease), (attempt, taken)).await;
        }
        taken.claimed.push(self.hold(tx, queue_shard, seq, item, attempt).await?);
        Ok(())
    }

    /// The lease that an effect names is not held: its world hears so, and nothing is begun.
    async fn refuse<T: Transaction>(
        &self,
        tx: &mut T,
        queue_shard: QueueShard,
        seq: QueueSeq,
        (item, lease): (&EffectItem, &EffectLease),
        (attempt, taken): (u32, &mut Taken),
    ) -> Result<(), StoreError> {
        let EffectLease { pool, lease_id, lease_epoch, .. } = lease;
        let reason = format!("{} does not hold {lease_id} of `{pool}` under epoch {lease_epoch}", item.world);
        let failure = Failure { code: Code::StaleEpoch, reason, repeat: Repeat::Never };
        let (universe, world, intent) = (self.universe, item.world, item.intent);
        let claim = EffectClaim { universe, queue_shard, seq, token: self.token, world, intent };
        let payload = fail_effect::describe_of(item, None, &failure, attempt - 1);
        let terminal = Terminal {
            answer: Answer::new(ReceiptStatus::Error, payload, "pool"),
            now_ns: self.now_ns,
            dedupe_window_ns: limits::DEDUPE_WINDOW_NS,
            receipts_before: taken.refused,
            was_tried: attempt > 1,
            failed: None,
            woken_by: WokenBy::ReadyQueue,
        };
        taken.refused += u16::from(answer(tx, &claim, item, terminal).await?);
        Ok(())
    }

    /// When the rates of its world and of its kind let this item begin, if that is not now. The turn is reserved either way.
    async fn turn<T: Transaction>(
        &self,
        tx: &mut T,
        item: &EffectItem,
        gate: &mut Option<EffectRate>,
    ) -> Result<Option<u64>, StoreError> {
        let mut turn_ns = self.now_ns;
        if let Some(rate) = item.terms.rate {
            let before = effect_rate::read(tx, self.universe, item.world, &item.kind).await?;
            let (of_world_ns, after) = plan_rate(before, rate, self.now_ns);
            effect_rate::write(tx, self.universe, item.world, &item.kind, &after)?;
            turn_ns = turn_ns.max(of_world_ns);
        }
        if let (Some(rate), Some(gate)) = (self.cap.rate, gate) {
            let (of_kind_ns, after) = plan_rate(Some(*gate), rate, self.now_ns);
            *gate = after;
            turn_ns = turn_ns.max(of_kind_ns);
        }
        Ok((turn_ns > self.now_ns).then_some(turn_ns))
    }

    async fn hold<T: Transaction>(
        &self,
        tx: &mut T,
        queue_shard: QueueShard,
        seq: QueueSeq,
        item: EffectItem,
        attempt: u32,
    ) -> Result<ClaimedEffect, StoreError> {
        let deadline_ns = self.now_ns.saturating_add(self.ttl_ns);
        let claim = Claim { token: self.token, worker: self.worker, deadline_ns, attempt };
        lower_reaper_mark(tx, self.universe, queue_shard, seq).await?;
        let held = EffectInflight { claim, item, status: None };
        put(tx, &effect_inflight::key(self.universe, queue_shard, seq), &held)?;
        let EffectInflight { claim, item, .. } = held;
        let (world, intent) = (item.world, item.intent);
        let proof = EffectClaim { universe: self.universe, queue_shard, seq, token: self.token, world, intent };
        Ok(ClaimedEffect { proof, claim, item })
    }
}

/// Whether a world holds a lease under this epoch. The commit depends on it, also on its absence.
async fn is_held<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    (lease, attempt): (&EffectLease, u32),
) -> Result<bool, StoreError> {
    if planted(Mutant::EffectLeaseUnread) || planted(Mutant::EffectLeaseReadOnce) && attempt > 1 {
        return Ok(true);
    }
    let held = match planted(Mutant::EffectLeaseReadApart) {
        true => lease_authority::read_snapshot(tx, universe, lease.world, lease.lease_id).await?,
        false => lease_authority::read(tx, universe, lease.world, lease.lease_id).await?,
    };
    let expected = LeaseAuthority { epoch: lease.lease_epoch, holder: world.into() };
    Ok(held == Some(expected))
}

/// The reaper looks only above its mark, and an item that is tried again has an old sequence.
async fn lower_reaper_mark<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    queue_shard: QueueShard,
    seq: QueueSeq,
) -> Result<(), StoreError> {
    let mark = low_water::read(tx, universe, Queue::EffectClaims, queue_shard).await?;
    if LowWater::seq(mark).is_some_and(|mark| seq < mark) {
        low_water::write(tx, universe, Queue::EffectClaims, queue_shard, &LowWater::Seq(seq))?;
    }
    Ok(())
}

/// When the next call may begin, and what is remembered of it. Calls come evenly, and up to `burst` of them early.
fn plan_rate(before: Option<EffectRate>, rate: RateTerms, now_ns: u64) -> (u64, EffectRate) {
    let interval_ns = 1_000_000_000 / u64::from(rate.per_second.max(1));
    let even_ns = before.map_or(now_ns, |before| before.even_ns.max(now_ns));
    let early_ns = interval_ns.saturating_mul(u64::from(rate.burst.max(1)) - 1);
    let turn_ns = even_ns.saturating_sub(early_ns).max(now_ns);
    (turn_ns, EffectRate { even_ns: even_ns.saturating_add(interval_ns) })
}

impl EffectClaim {
    /// The part of the effect that its holder still has.
    pub(in crate::protocol) async fn held<T: Transaction>(&self, tx: &mut T) -> Result<Held, StoreError> {
        Held::read(tx, self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_evenly_after_a_burst() {
        let rate = RateTerms { per_second: 2, burst: 3 };
        let mut state = None;
        let turns: Vec<u64> = (0..6)
            .map(|_| {
                let (turn_ns, after) = plan_rate(state, rate, 10_000_000_000);
                state = Some(after);
                (turn_ns - 10_000_000_000) / 1_000_000
            })
            .collect();
        assert_eq!(turns, [0, 0, 0, 500, 1_000, 1_500]);
    }

    #[test]
    fn a_rate_that_was_not_used_does_not_pile_up() {
        let rate = RateTerms { per_second: 1, burst: 1 };
        let (_, after) = plan_rate(None, rate, 0);
        let (turn_ns, after) = plan_rate(Some(after), rate, 60_000_000_000);
        assert_eq!((turn_ns, after.even_ns), (60_000_000_000, 61_000_000_000));
        assert_eq!(plan_rate(Some(after), rate, 60_000_000_000).0, 61_000_000_000);
    }
}
