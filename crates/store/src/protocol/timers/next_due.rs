//! Next due: until when a worker may sleep if nobody wakes it.
//!
//! Guarantees: nothing that is queued when it is asked becomes due before the time it returns. Reads only.
//! Unknown commit: it has none.

use crate::protocol::fire_timers::EARLY_NS;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Shard,
        low_water::{self, LowWater},
        queue::Queue,
        timer_due,
    },
};
use mundi_engine::{Read, ReadPlan, Transaction};
use mundi_model::{
    UniverseId,
    mutants::{Mutant, planted},
};

/// The time of the next timer of each shard that has one.
#[derive(Debug, Clone, Copy)]
pub struct NextTimers {
    pub universe: UniverseId,
}

impl Protocol for NextTimers {
    type Output = Vec<(Shard, u64)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        let mark = |shard| low_water::key(self.universe, Queue::Timers, timer_due::queue_shard(shard)).planned();
        ReadPlan::reads(Shard::all().map(mark))
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Vec<(Shard, u64)>, StoreError> {
        let universe = self.universe;
        let mut firsts = Vec::new();
        for shard in Shard::all() {
            let mark = low_water::read_snapshot(tx, universe, Queue::Timers, timer_due::queue_shard(shard)).await?;
            let span = timer_due::due(universe, shard, LowWater::time_ns(mark), u64::MAX);
            firsts.push((shard, span.read(1).snapshot()));
        }
        tx.prefetch(|| firsts.iter().map(|(_, first)| Read::Range(first.clone())));
        let early_ns = if planted(Mutant::TimerEarly) { EARLY_NS } else { 0 };
        let mut next = Vec::new();
        for (shard, first) in firsts {
            for (key, _) in tx.range(first).await?.items {
                next.push((shard, timer_due::parse(universe, shard, &key)?.place_ns.saturating_sub(early_ns)));
            }
        }
        Ok(next)
    }
}
