//! Find out which worker holds a world, and where it is reached (ADR 0008).
//!
//! Guarantees: none but what stood there at one moment; nobody's safety rests on it. A worker that drains, or whose heartbeat expired, is
//! nobody to turn to.
//! Unknown commit: it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{lease, worker},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct FindHolder {
    pub universe: UniverseId,
    pub world: WorldId,
    pub now_ns: u64,
}

impl Protocol for FindHolder {
    /// The worker, and its address.
    type Output = Option<(WorkerId, String)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let lease = lease::read(tx, self.universe, self.world).await?;
        let Some(holder) = lease.and_then(|lease| lease.holder) else { return Ok(None) };
        let record = worker::read(tx, self.universe, holder).await?;
        let record = record.filter(|record| !record.draining && record.expires_at_ns > self.now_ns);
        Ok(record.and_then(|record| record.address).map(|address| (holder, address)))
    }
}
