//! Register manifests and programs: what worlds of a universe may run.
//!
//! Guarantees: what is registered stays registered until it is deleted (`keep_object`). Registering it again changes nothing.
//! Unknown commit: run again; it is idempotent.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::registered::{self, Registered, RegisteredKind},
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId};

#[derive(Debug, Clone)]
pub struct Register {
    pub universe: UniverseId,
    pub entries: Vec<(RegisteredKind, Registered)>,
}

impl Protocol for Register {
    type Output = ();

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        for (kind, entry) in &self.entries {
            if registered::read(tx, self.universe, *kind, entry.hash).await?.is_none() {
                registered::write(tx, self.universe, *kind, entry)?;
            }
        }
        Ok(())
    }
}

/// Whether worlds of a universe may run it.
#[derive(Debug, Clone, Copy)]
pub struct IsRegistered {
    pub universe: UniverseId,
    pub kind: RegisteredKind,
    pub hash: Hash,
}

impl Protocol for IsRegistered {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        Ok(registered::read(tx, self.universe, self.kind, self.hash).await?.is_some())
    }
}
