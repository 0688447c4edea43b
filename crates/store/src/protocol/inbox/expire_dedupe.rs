//! Expire dedupe records whose window is over.
//!
//! Guarantees: a record goes no sooner than it expires, and never while its intent or timer is open. The name of a message stays
//! while an effect that sends it is open: in the queue, between two attempts, claimed, or in a dead letter that can be replayed
//! (`fabric_send` says why that is enough). With the name of a call goes what is noted of its caller. A name is looked at again with the next bucket. It works in
//! bounded chunks, oldest first, from a low-water mark: the buckets before it were found empty. The mark stays some
//! buckets behind, for senders whose clocks do; what one of them writes still further back stays for good.
//! Unknown commit: run again; what is gone is gone.

use crate::{
    Clock, OnUnknown, Protocol, StoreError,
    keyspace::{
        QueueShard, Shard, child_request,
        dedupe_bucket::{self, DedupeKind, Ending},
        effect_dedupe::{self, EffectStatus},
        effect_inflight,
        inbox_dedupe::{self, DedupeId, SendingEffect},
        low_water::{self, LowWater},
        open_call,
        queue::Queue,
        timer_dedupe::{self, TimerStatus},
    },
    run,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    IntentHash, UniverseId,
    mutants::{Mutant, planted},
};

/// How many records one transaction looks at.
const CHUNK_RECORDS: usize = 1_000;

/// How far the mark stays behind: more than clocks of one fleet may differ.
const MARK_LAG_NS: u64 = 12 * dedupe_bucket::BUCKET_NS;

/// Removes all records that have ended, chunk by chunk; returns how many.
pub async fn expire_dedupe<E: Engine>(
    engine: &E,
    clock: &dyn Clock,
    universe: UniverseId,
) -> Result<usize, StoreError> {
    let mut removed = 0;
    loop {
        let step = ExpireDedupe { universe, now_ns: clock.now_ns() };
        match run(engine, clock, &step).await?.output {
            0 => return Ok(removed),
            chunk => removed += chunk,
        }
    }
}

/// One chunk; returns how many records ended with it.
#[derive(Debug, Clone, Copy)]
pub struct ExpireDedupe {
    pub universe: UniverseId,
    pub now_ns: u64,
}

impl Protocol for ExpireDedupe {
    type Output = usize;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<usize, StoreError> {
        let mark_ns = self.mark_ns(tx).await?;
        let over = dedupe_bucket::over(self.universe, mark_ns, self.now_ns);
        let page = tx.range(over.read(CHUNK_RECORDS).snapshot()).await?;
        for (key, _) in &page.items {
            let ending = dedupe_bucket::parse(self.universe, key)?;
            self.expire(tx, &ending).await?;
            tx.delete(key)?;
        }
        let next_ns = self.now_ns.saturating_sub(MARK_LAG_NS);
        if !page.more && next_ns >= mark_ns.saturating_add(dedupe_bucket::BUCKET_NS) {
            low_water::write(tx, self.universe, Queue::Dedupe, queue_shard(), &LowWater::TimeNs(next_ns))?;
        }
        Ok(page.items.len())
    }
}

/// There is one line of endings; its shards lie within each bucket.
fn queue_shard() -> QueueShard {
    QueueShard::new("dedupe", Shard::FIRST)
}

impl ExpireDedupe {
    async fn mark_ns<T: Transaction>(&self, tx: &mut T) -> Result<u64, StoreError> {
        Ok(LowWater::time_ns(low_water::read(tx, self.universe, Queue::Dedupe, queue_shard()).await?))
    }

    async fn expire<T: Transaction>(&self, tx: &mut T, ending: &Ending) -> Result<(), StoreError> {
        let (universe, world) = (self.universe, ending.world);
        let intent = IntentHash::from_bytes(*ending.id.as_bytes());
        let over = match ending.kind {
            DedupeKind::Inbox => {
                let id = DedupeId::from_hash(ending.id);
                let senders =
                    inbox_dedupe::known(tx, universe, world, id).await?.map_or(Vec::new(), |known| known.senders);
                if !senders.is_empty() {
                    if !open_ones(tx, senders).await?.is_empty() {
                        let later_ns = self.now_ns.saturating_add(dedupe_bucket::BUCKET_NS);
                        let ending = Ending::new(ending.kind, world, ending.id, later_ns);
                        return dedupe_bucket::write(tx, universe, &ending);
                    }
                    if let Some(call) = inbox_dedupe::read(tx, universe, world, id).await? {
                        tx.delete(open_call::key(universe, world, call).as_bytes())?; // if it is one
                    }
                }
                let span = inbox_dedupe::prefix(universe, world, id).span();
                return Ok(tx.delete_range(span.start.as_bytes(), span.end.as_bytes())?);
            }
            DedupeKind::Effect => {
                let record = effect_dedupe::read(tx, universe, world, intent).await?;
                record
                    .filter(|record| record.status != EffectStatus::Pending)
                    .map(|_| effect_dedupe::key(universe, world, intent))
            }
            DedupeKind::Timer => {
                let record = timer_dedupe::read(tx, universe, world, intent).await?;
                record
                    .filter(|record| !matches!(record.status, TimerStatus::Due { .. }))
                    .map(|_| timer_dedupe::key(universe, world, intent))
            }
            DedupeKind::ChildRequest => {
                // One that was asked again after its window has an ending of its own.
                let request = child_request::read(tx, universe, world, ending.id).await?;
                let request = request.filter(|request| request.expires_at_ns <= self.now_ns);
                request.map(|_| child_request::key(universe, world, ending.id))
            }
        };
        match over {
            Some(key) => Ok(tx.delete(key.as_bytes())?),
            None => Ok(()),
        }
    }
}

/// Those that may still be carried out.
pub(in crate::protocol) async fn open_ones<T: Transaction>(
    tx: &mut T,
    effects: Vec<SendingEffect>,
) -> Result<Vec<SendingEffect>, StoreError> {
    let mut open = Vec::new();
    for effect in effects {
        if is_open(tx, &effect).await? {
            open.push(effect);
        }
    }
    Ok(open)
}

/// Whether an effect may still be carried out. One in the slot that it was published into has no record but its claim.
async fn is_open<T: Transaction>(tx: &mut T, effect: &SendingEffect) -> Result<bool, StoreError> {
    if planted(Mutant::NameExpired) {
        return Ok(false);
    }
    let SendingEffect { universe, world, intent, seq, .. } = *effect;
    let claim = effect_inflight::key(universe, effect.queue_shard(), seq);
    if tx.get(claim.as_bytes()).await?.is_some() {
        return Ok(true);
    }
    let record = effect_dedupe::read(tx, universe, world, intent).await?;
    Ok(record.is_some_and(|record| record.status == EffectStatus::Pending))
}
