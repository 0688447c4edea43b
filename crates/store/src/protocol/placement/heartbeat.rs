//! A worker writes its heartbeat with its capacity, or removes it.
//!
//! Guarantees: none but the record itself; nobody's safety rests on it. Who watches the workers is told when one comes,
//! begins to drain or goes.
//! Unknown commit: run again; it is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        queue_notify::{self, WORKERS},
        worker::{self, WorkerRecord},
    },
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
        let before = worker::read(tx, self.universe, self.worker).await?;
        let drains = |record: &Option<WorkerRecord>| record.as_ref().map(|record| record.draining);
        if drains(&before) != drains(&self.record) {
            queue_notify::bump(tx, self.universe, WORKERS)?;
        }
        match &self.record {
            Some(record) => worker::write(tx, self.universe, self.worker, record),
            None => Ok(tx.delete(worker::key(self.universe, self.worker).as_bytes())?),
        }
    }
}
