//! How much waits in the shared queues of a universe, and how long the oldest effect has.
//!
//! Guarantees: one moment, counted up to a bound: a number that reaches it means "so many or more".
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Family, dead_letter, effect_pending, effect_place::EffectStage, queue::Queue},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, limits};

#[derive(Debug, Clone, Copy)]
pub struct QueueDepths {
    pub universe: UniverseId,
    pub now_ns: u64,
}

/// Counts, each up to [`limits::LIST_LOOKS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Depths {
    /// Pending, waiting for another attempt, claimed.
    pub effects: [u64; 3],
    /// How long the oldest of the effects that were counted and never tried has waited.
    pub effect_age_ns_max: u64,
    pub timers: u64,
    /// Of effects, timers and mailboxes.
    pub dead_letters: [u64; 3],
}

impl Protocol for QueueDepths {
    type Output = Depths;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Depths, StoreError> {
        let Self { universe, now_ns } = *self;
        let mut depths = Depths::default();
        let looks = limits::LIST_LOOKS_MAX;
        for (stage, count) in EffectStage::ALL.into_iter().zip(&mut depths.effects) {
            let found = tx.range(stage.family().prefix(universe).span().read(looks).snapshot()).await?.items;
            *count = found.len() as u64;
            for (key, bytes) in found.iter().filter(|_| stage == EffectStage::Pending) {
                let age_ns = now_ns.saturating_sub(effect_pending::decode(key, bytes)?.published_at_ns);
                depths.effect_age_ns_max = depths.effect_age_ns_max.max(age_ns);
            }
        }
        let timers = tx.range(Family::TimerDue.prefix(universe).span().read(looks).snapshot()).await?;
        depths.timers = timers.items.len() as u64;
        let queues = [Queue::Effects, Queue::Timers, Queue::Mailboxes];
        for (queue, count) in queues.into_iter().zip(&mut depths.dead_letters) {
            let letters = tx.range(dead_letter::prefix(universe, queue).span().read(looks).snapshot()).await?;
            *count = letters.items.len() as u64;
        }
        Ok(depths)
    }
}
