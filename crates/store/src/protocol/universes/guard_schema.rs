//! Guard the schema version at boot.
//!
//! Guarantees: a worker runs only on a universe that is written in its own version. The outcomes: the marker matches; it is of
//! an earlier minor version, and is raised; it is another one, or none at all in its place; it is missing. Only a worker with
//! leave to do so writes.
//! Unknown commit: run again; a marker that is there is compared.

use crate::protocol::SchemaError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::schema_version::{self, SchemaVersion},
};
use mundi_engine::Transaction;
use mundi_model::UniverseId;

#[derive(Debug, Clone, Copy)]
pub struct GuardSchema {
    pub universe: UniverseId,
    pub expected: SchemaVersion,
    /// Write the marker if there is none, or an earlier one.
    pub bootstrap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaGuarded {
    Matches,
    Bootstrapped,
    /// From now on, workers of the version before refuse to start.
    Raised,
}

impl Protocol for GuardSchema {
    type Output = SchemaGuarded;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<SchemaGuarded, StoreError> {
        let Self { universe, expected, bootstrap } = *self;
        let key = schema_version::key(universe);
        let Some(bytes) = tx.get(key.as_bytes()).await? else {
            if !bootstrap {
                return Err(SchemaError::Missing(universe).into());
            }
            tx.put(key.as_bytes(), expected.to_bytes().to_vec())?;
            return Ok(SchemaGuarded::Bootstrapped);
        };
        match SchemaVersion::from_bytes(&bytes) {
            Some(found) if found == expected => Ok(SchemaGuarded::Matches),
            Some(found) if bootstrap && expected.can_raise(found) => {
                tx.put(key.as_bytes(), expected.to_bytes().to_vec())?;
                Ok(SchemaGuarded::Raised)
            }
            found => Err(SchemaError::Mismatch { universe, expected, found }.into()),
        }
    }
}
