//! Pending timers.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::WorldId;
use mundi_store::{
    keyspace::timer_due::TimerPlace,
    protocol::{ListTimers, Page, QueuedTimer},
};

impl<P: Plane> Ops<P> {
    /// The timers of a universe or of one world, in pages.
    pub async fn list_timers(
        &self,
        world: Option<WorldId>,
        after: Option<TimerPlace>,
        items_max: usize,
    ) -> Result<Page<QueuedTimer, TimerPlace>, RuntimeError> {
        Ok(self.plane.run(&ListTimers { universe: self.universe, world, after, items_max }).await?.output)
    }
}
