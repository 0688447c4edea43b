//! A worker says that it lives and what it can carry, or that it leaves (seed 000, orchestrator).
//!
//! Guarantees: none but the record itself; nobody's safety rests on it.
//! Unknown commit: run again; it is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::worker::{self, WorkerRecord},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId};

#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub universe: UniverseId,
    pub worker: WorkerId,
    /// `None` when it leaves.
    pub record: Option<WorkerRecord>,
}

impl Protocol for Heartbeat {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        match &self.record {
            Some(record) => worker::write(tx, self.universe, self.worker, record),
            None => Ok(tx.delete(worker::key(self.universe, self.worker).as_bytes())?),
        }
    }
}
