//! How much waits.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_store::protocol::{Depths, QueueDepths};

impl<P: Plane> Ops<P> {
    /// How much waits in the shared queues of the universe, counted up to a bound.
    pub async fn queue_depths(&self) -> Result<Depths, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&QueueDepths { universe, now_ns }).await?.output)
    }
}
