//! Effects on their way.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::WorldId;
use mundi_store::{
    keyspace::effect_place::EffectPlace,
    protocol::{CancelEffect, ListEffects, Page, QueuedEffect, ReadEffect, RetryEffect},
};

impl<P: Plane> Ops<P> {
    /// The effects that have no receipt yet, in pages; of one world or one kind, if they are given.
    pub async fn list_effects(
        &self,
        world: Option<WorldId>,
        kind: Option<&str>,
        after: Option<EffectPlace>,
        items_max: usize,
    ) -> Result<Page<QueuedEffect, EffectPlace>, RuntimeError> {
        let (universe, kind) = (self.universe, kind.map(str::to_owned));
        Ok(self.plane.run(&ListEffects { universe, world, kind, after, items_max }).await?.output)
    }

    pub async fn read_effect(&self, place: EffectPlace) -> Result<QueuedEffect, RuntimeError> {
        Ok(self.plane.run(&ReadEffect { universe: self.universe, place }).await?.output)
    }

    /// Tries an effect that waits for its next attempt at once. `false` if it does not wait.
    pub async fn retry_effect(&self, place: EffectPlace) -> Result<bool, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&RetryEffect { universe, place, now_ns }).await?.output)
    }

    /// Ends an effect: its world gets an `error` receipt. `false` if the world does not wait for it any more.
    pub async fn cancel_effect(&self, place: EffectPlace, reason: &str) -> Result<bool, RuntimeError> {
        let (universe, reason, now_ns) = (self.universe, reason.to_owned(), self.plane.now_ns());
        Ok(self.plane.run(&CancelEffect { universe, place, reason, now_ns }).await?.output)
    }
}
