//! Fire due timers.
//!
//! Guarantees: one transaction puts the firings into the inboxes, marks the timers as delivered and removes them from the
//! queue. So a timer fires exactly once, whoever fires it, and there is no moment between claim and delivery in which a
//! worker could die; a second worker that takes the same timer conflicts. None fires early against the clock that is
//! passed in. What was cancelled, or belongs to a world that is gone, is dropped. The timers of one world that are
//! delivered together are in the order of their times.
//!
//! A delivery that fails costs only its own world: its timers move to a later place, and after their budget to the dead
//! letters, so they are never in the way of those behind them.
//!
//! Unknown commit: run again; what was delivered is not due any more.

use crate::protocol::{
    Enqueue, NewItem, WorldError, claim_effects::MARK_STEP_NS, enqueue::reads_of, settle_effect::bury,
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Shard,
        dead_letter::DeadLetter,
        dedupe_bucket::{self, DedupeKind, Ending},
        inbox_dedupe::DedupeId,
        low_water::{self, LowWater},
        queue::Queue,
        timer_dedupe::{self, TimerDedupe, TimerStatus},
        timer_due::{self, TimerItem, TimerPlace},
    },
};
use bytes::Bytes;
use mundi_engine::{Read, Transaction};
use mundi_model::{
    Coded, Hash, UniverseId, WorldId, cbor, limits,
    mutants::{Mutant, planted},
    record::{InboxItem, Input, Origin},
};
use std::collections::BTreeMap;

const ATTEMPTS_MAX: u32 = limits::DELIVERY_ATTEMPTS_MAX;
const BACKOFF_NS: u64 = limits::DELIVERY_BACKOFF_MS * 1_000_000;
const BACKOFF_NS_MAX: u64 = limits::DELIVERY_BACKOFF_MS_MAX * 1_000_000;

/// By how much a mutant is early.
pub(in crate::protocol) const EARLY_NS: u64 = 5_000_000_000;

/// The due timers of one shard, up to `items_max` of them.
#[derive(Debug, Clone, Copy)]
pub struct FireTimers {
    pub universe: UniverseId,
    pub shard: Shard,
    pub items_max: usize,
    pub now_ns: u64,
    pub dedupe_window_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fired {
    pub fired: usize,
    pub dropped: usize,
    /// Those whose delivery failed, and will be tried again.
    pub retrying: usize,
    pub buried: usize,
    /// How late the latest of them was.
    pub lag_ns_max: u64,
    /// More are due.
    pub more: bool,
}

impl Fired {
    /// Counts what one more transaction did; whether more are due is not known then.
    pub fn add(&mut self, other: &Self) {
        self.fired += other.fired;
        self.dropped += other.dropped;
        self.retrying += other.retrying;
        self.buried += other.buried;
        self.lag_ns_max = self.lag_ns_max.max(other.lag_ns_max);
    }
}

impl Protocol for FireTimers {
    type Output = Fired;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Fired, StoreError> {
        let Self { universe, shard, mut now_ns, .. } = *self;
        now_ns += if planted(Mutant::TimerEarly) { EARLY_NS } else { 0 };
        let queue_shard = timer_due::queue_shard(shard);
        let from_ns = LowWater::time_ns(low_water::read_snapshot(tx, universe, Queue::Timers, queue_shard).await?);
        let due = timer_due::due(universe, shard, from_ns, now_ns);
        let page = tx.range(due.read(self.items_max.min(limits::TIMERS_FIRED_MAX)).snapshot()).await?;
        let taken = fitting(&page.items);
        let mut fired = Fired { more: page.more || taken.len() < page.items.len(), ..Fired::default() };
        let mut worlds: BTreeMap<WorldId, Vec<Due>> = BTreeMap::new();
        let mut mark_ns = from_ns;
        tx.prefetch(|| self.reads_to_take(taken));
        for (key, bytes) in taken {
            mark_ns = timer_due::parse(universe, shard, key)?.place_ns;
            if let Some(due) = self.take(tx, key, bytes, &mut fired).await? {
                worlds.entry(due.item.world).or_default().push(due);
            }
        }
        for (world, timers) in worlds {
            self.deliver(tx, world, &timers, &mut fired).await?;
        }
        if mark_ns >= from_ns.saturating_add(MARK_STEP_NS) {
            let below = timer_due::due(universe, shard, from_ns, mark_ns - 1);
            low_water::raise(tx, universe, Queue::Timers, queue_shard, &below, &LowWater::TimeNs(mark_ns)).await?;
        }
        Ok(fired)
    }
}

/// A timer that its world waits for, still in its place.
struct Due {
    key: Bytes,
    item: TimerItem,
    /// How often its delivery failed before.
    attempts: u32,
}

impl FireTimers {
    /// The reads when timers are taken and delivered: the record of each, and whether its world knows it; and each world once.
    fn reads_to_take(&self, items: &[(Bytes, Bytes)]) -> Vec<Read> {
        let mut worlds: BTreeMap<WorldId, Vec<DedupeId>> = BTreeMap::new();
        let mut reads = Vec::new();
        for (key, bytes) in items {
            match timer_due::decode(key, bytes) {
                Ok(TimerItem { world, intent, .. }) => {
                    reads.push(timer_dedupe::key(self.universe, world, intent).planned());
                    worlds.entry(world).or_default().push(DedupeId::timer(intent));
                }
                Err(_) => reads.push(Read::get(key)),
            }
        }
        reads.extend(worlds.into_iter().flat_map(|(world, names)| reads_of(self.universe, world, names)));
        reads
    }

    /// Whether a world waits for a timer; if none does, it is removed. The read of its record makes whoever fires, moves or cancels it meanwhile
    /// conflict.
    async fn take<T: Transaction>(
        &self,
        tx: &mut T,
        key: &Bytes,
        bytes: &Bytes,
        fired: &mut Fired,
    ) -> Result<Option<Due>, StoreError> {
        let item = match timer_due::decode(key, bytes) {
            Ok(item) => item,
            Err(damage) => {
                remove_alone(tx, key).await?;
                return self.bury(tx, None, 0, bytes.to_vec(), &damage, fired).map(|()| None);
            }
        };
        let record = timer_dedupe::read(tx, self.universe, item.world, item.intent).await;
        match record {
            Ok(Some(TimerDedupe { status: TimerStatus::Due { attempts, .. }, .. })) => {
                Ok(Some(Due { key: key.clone(), item, attempts }))
            }
            Ok(_) => {
                tx.delete(key)?;
                fired.dropped += 1;
                Ok(None)
            }
            Err(damage @ StoreError::Damaged(_)) => {
                remove_alone(tx, key).await?;
                self.bury(tx, Some(item.world), 0, bytes.to_vec(), &damage, fired).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    async fn deliver<T: Transaction>(
        &self,
        tx: &mut T,
        world: WorldId,
        timers: &[Due],
        fired: &mut Fired,
    ) -> Result<(), StoreError> {
        let items: Vec<_> = timers.iter().map(|due| self.firing(&due.item)).collect();
        let enqueued = match Enqueue::new(self.universe, world, &items, self.now_ns, self.dedupe_window_ns) {
            Ok(enqueue) => enqueue.beyond_bounds().run_within(tx).await,
            Err(error) => Err(error.into()),
        };
        match enqueued {
            Ok(_) => {
                for Due { key, item, .. } in timers {
                    tx.delete(key)?;
                    self.remember(tx, item)?;
                    fired.lag_ns_max = fired.lag_ns_max.max(self.now_ns.saturating_sub(item.deliver_at_ns));
                }
                fired.fired += timers.len();
                Ok(())
            }
            Err(StoreError::World(WorldError::Deleted(_) | WorldError::NotFound { .. })) => {
                timers.iter().try_for_each(|due| tx.delete(&due.key))?;
                fired.dropped += timers.len();
                Ok(())
            }
            Err(failure @ (StoreError::Damaged(_) | StoreError::World(_) | StoreError::Inbox(_))) => {
                for due in timers {
                    self.postpone(tx, due, &failure, fired).await?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn firing(&self, item: &TimerItem) -> NewItem {
        let (enqueued_at_ns, trace, correlation_id) = (self.now_ns, item.trace.clone(), item.correlation_id.clone());
        let origin = Origin { correlation_id, trace, call: item.call, ..Origin::new(enqueued_at_ns) };
        let input = Input::TimerFired { timer: item.intent, payload: item.payload.clone() };
        NewItem { item: InboxItem { input, origin }, dedupe: Some(DedupeId::timer(item.intent)) }
    }

    fn remember<T: Transaction>(&self, tx: &mut T, item: &TimerItem) -> Result<(), StoreError> {
        let dedupe = TimerDedupe { status: TimerStatus::Delivered, at_ns: self.now_ns };
        timer_dedupe::write(tx, self.universe, item.world, item.intent, &dedupe)?;
        let expires_at_ns = self.now_ns.saturating_add(self.dedupe_window_ns);
        let id = Hash::from_bytes(*item.intent.as_bytes());
        dedupe_bucket::write(tx, self.universe, &Ending::new(DedupeKind::Timer, item.world, id, expires_at_ns))
    }

    /// A later place, or the dead letters. The record says that the world still waits, so that a replay may deliver it.
    async fn postpone<T: Transaction>(
        &self,
        tx: &mut T,
        due: &Due,
        failure: &StoreError,
        fired: &mut Fired,
    ) -> Result<(), StoreError> {
        let Due { key, item, attempts } = due;
        remove_alone(tx, key).await?;
        let attempts = attempts.saturating_add(1);
        let Some(wait_ns) = plan_wait(attempts) else {
            return self.bury(tx, Some(item.world), attempts, cbor::encode(item), failure, fired);
        };
        let queue_shard = timer_due::queue_shard(self.shard);
        let mark = low_water::read(tx, self.universe, Queue::Timers, queue_shard).await?;
        let place_ns = self.now_ns.saturating_add(wait_ns).max(LowWater::time_ns(mark));
        timer_due::write(tx, self.universe, TimerPlace { place_ns, intent: item.intent }, item)?;
        let dedupe = TimerDedupe { status: TimerStatus::Due { place_ns, attempts }, at_ns: self.now_ns };
        timer_dedupe::write(tx, self.universe, item.world, item.intent, &dedupe)?;
        fired.retrying += 1;
        Ok(())
    }

    fn bury<T: Transaction>(
        &self,
        tx: &mut T,
        world: Option<WorldId>,
        attempts: u32,
        item: Vec<u8>,
        error: &StoreError,
        fired: &mut Fired,
    ) -> Result<(), StoreError> {
        let (code, reason) = (error.code().to_string(), error.to_string());
        let letter = DeadLetter { world, code, reason, attempts, item, at_ns: self.now_ns, worker: None };
        #[expect(clippy::cast_possible_truncation, reason = "a transaction fires far fewer")]
        let mut index = fired.buried as u16;
        fired.buried += 1;
        bury(tx, self.universe, Queue::Timers, &mut index, &letter)
    }
}

/// Removes a timer whose record stays as it is. The read makes whoever removes it meanwhile conflict: else both would bury it.
async fn remove_alone<T: Transaction>(tx: &mut T, key: &Bytes) -> Result<(), StoreError> {
    tx.get(key).await?;
    Ok(tx.delete(key)?)
}

/// The first of them, as many as one transaction holds; at least one.
fn fitting(items: &[(Bytes, Bytes)]) -> &[(Bytes, Bytes)] {
    let mut bytes = 0;
    let mut fits = |(_, value): &(Bytes, Bytes)| {
        bytes += value.len();
        bytes <= limits::TIMERS_FIRED_BYTES_MAX
    };
    let count = items.iter().map_while(|item| fits(item).then_some(())).count();
    &items[..count.max(1).min(items.len())]
}

/// How long the next try waits after so many failures; `None` once the budget is spent.
fn plan_wait(attempts: u32) -> Option<u64> {
    let doublings = attempts.saturating_sub(1).min(20);
    (attempts < ATTEMPTS_MAX).then(|| BACKOFF_NS.saturating_mul(1 << doublings).min(BACKOFF_NS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_takes_as_many_timers_as_it_holds_and_at_least_one() {
        let item = |bytes: usize| (Bytes::from_static(b"key"), Bytes::from(vec![0; bytes]));
        let half = limits::TIMERS_FIRED_BYTES_MAX / 2;
        assert_eq!(fitting(&[]).len(), 0);
        assert_eq!(fitting(&[item(2 * half + 1), item(1)]).len(), 1);
        assert_eq!(fitting(&[item(half), item(half), item(1)]).len(), 2);
        assert_eq!(fitting(&[item(1), item(2), item(3)]).len(), 3);
    }

    #[test]
    fn waits_double_up_to_a_minute_until_the_budget_is_spent() {
        assert_eq!([1, 2, 3].map(plan_wait), [100, 200, 400].map(|ms| Some(ms * 1_000_000)));
        assert_eq!(plan_wait(ATTEMPTS_MAX - 1), Some(BACKOFF_NS_MAX));
        assert_eq!(plan_wait(ATTEMPTS_MAX), None);
    }
}
