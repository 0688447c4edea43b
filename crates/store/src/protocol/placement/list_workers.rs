//! List the workers of a universe.
//!
//! Guarantees: one consistent moment. There are as many workers as machines, so the list is read whole.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        worker::{self, WorkerRecord},
    },
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorkerId, limits};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct ListWorkers {
    pub universe: UniverseId,
}

impl Protocol for ListWorkers {
    type Output = BTreeMap<WorkerId, WorkerRecord>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let span = worker::prefix(self.universe).span();
        let page = tx.range(span.read(limits::RANGE_ITEMS_MAX).snapshot()).await?;
        let entry = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| {
            Ok((worker::parse(self.universe, key)?, decode_value(Family::Worker, key, bytes)?))
        };
        page.items.iter().map(entry).collect()
    }
}
