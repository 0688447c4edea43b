//! Next due: until when a worker may sleep if nobody wakes it.
//!
//! Guarantees: nothing that is queued when it is asked becomes due before the time it returns. Reads only.
//! Unknown commit: it has none.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Lane, Shard, effect_retry,
        low_water::{self, LowWater},
        queue::Queue,
        timer_due,
    },
};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

/// The time of the next timer.
#[derive(Debug, Clone, Copy)]
pub struct NextTimer {
    pub universe: UniverseId,
}

impl Protocol for NextTimer {
    type Output = Option<u64>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<u64>, StoreError> {
        let mut next = None;
        for shard in Shard::all() {
            let mark = low_water::read_snapshot(tx, self.universe, Queue::Timers, timer_due::lane(shard)).await?;
            let span = timer_due::due(self.universe, shard, LowWater::time_ns(mark), u64::MAX);
            for (key, _) in tx.range(span.read(1).snapshot()).await?.items {
                next = earlier(next, timer_due::parse(self.universe, shard, &key)?.place_ns);
            }
        }
        Ok(next)
    }
}

/// The time of the next attempt at an effect of a kind that waits for one.
#[derive(Debug, Clone)]
pub struct NextRetry {
    pub universe: UniverseId,
    pub kind: String,
}

impl Protocol for NextRetry {
    type Output = Option<u64>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<u64>, StoreError> {
        let mut next = None;
        for lane in Shard::all().map(|shard| Lane::new(&self.kind, shard)) {
            let mark = low_water::read_snapshot(tx, self.universe, Queue::EffectRetries, lane).await?;
            let span = effect_retry::between(self.universe, lane, LowWater::time_ns(mark), u64::MAX);
            for (key, _) in tx.range(span.read(1).snapshot()).await?.items {
                next = earlier(next, effect_retry::parse(self.universe, lane, &key)?.place_ns);
            }
        }
        Ok(next)
    }
}

fn earlier(next: Option<u64>, at_ns: u64) -> Option<u64> {
    Some(next.map_or(at_ns, |next| next.min(at_ns)))
}
