//! Create a universe.
//!
//! Guarantees: a universe is created once; creating it again changes nothing.
//! Unknown commit: run again; what exists already is left as it is.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::universe_meta::{self, UniverseMeta},
};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy)]
pub struct CreateUniverse {
    pub universe: UniverseId,
    pub now_ns: u64,
}

impl Protocol for CreateUniverse {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        if universe_meta::read(tx, self.universe).await?.is_some() {
            return Ok(());
        }
        universe_meta::write(tx, self.universe, &UniverseMeta { created_at_ns: self.now_ns })
    }
}
