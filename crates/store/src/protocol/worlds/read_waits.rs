//! The causes that a world waits for, as far as one look at its keys tells.
//!
//! Guarantees: one consistent moment. Effects and timers are counted up to a bound; an effect in a slot of its world's process is counted by nobody.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, child_state, decode_value,
        effect_dedupe::{self, EffectDedupe, EffectStatus},
        lease_request::{self, LeaseRequest},
        ready,
        timer_dedupe::{self, TimerDedupe, TimerStatus},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

/// Names of effects and timers that are looked at: those that are over stay for a while.
const LOOKS_MAX: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct ReadWaits {
    pub universe: UniverseId,
    pub world: WorldId,
    /// The priority under which its ready hint stands.
    pub priority: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorldWaits {
    /// It has work that a worker could do.
    pub is_ready: bool,
    /// Effects without a receipt.
    pub effects: usize,
    pub timers: usize,
    /// When the earliest of them is due.
    pub due_ns: Option<u64>,
    /// Children that wait for their turn, and those that were dispatched.
    pub children_queued: u64,
    pub children_active: usize,
    /// An operator asks for its lease.
    pub request: Option<LeaseRequest>,
}

impl Protocol for ReadWaits {
    type Output = WorldWaits;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<WorldWaits, StoreError> {
        let Self { universe, world, priority } = *self;
        let hint = tx.get_snapshot(ready::key(universe, priority, world).as_bytes()).await?;
        let mut waits = WorldWaits {
            is_ready: hint.is_some(),
            request: lease_request::read(tx, universe, world).await?,
            ..WorldWaits::default()
        };
        let effects = tx.range(effect_dedupe::of_world(universe, world).read(LOOKS_MAX).snapshot()).await?;
        for (key, bytes) in &effects.items {
            let status = decode_value::<EffectDedupe>(Family::EffectDedupe, key, bytes)?.status;
            waits.effects += usize::from(status == EffectStatus::Pending);
        }
        let timers = tx.range(timer_dedupe::of_world(universe, world).read(LOOKS_MAX).snapshot()).await?;
        for (key, bytes) in &timers.items {
            if let TimerStatus::Due { place_ns, .. } =
                decode_value::<TimerDedupe>(Family::TimerDedupe, key, bytes)?.status
            {
                waits.timers += 1;
                waits.due_ns = Some(waits.due_ns.map_or(place_ns, |due_ns| due_ns.min(place_ns)));
            }
        }
        if let Some(state) = child_state::read(tx, universe, world).await? {
            (waits.children_queued, waits.children_active) = (state.queued, state.active.len());
        }
        Ok(waits)
    }
}
