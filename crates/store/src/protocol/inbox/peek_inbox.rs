//! Look whether anything was enqueued since an inbox was read to its end.
//!
//! Guarantees: if the counter says what it said then, nothing was committed to the inbox in between, up to the version
//! that is returned: every enqueue raises it in its own transaction. Asks for one key instead of a range, and needs no
//! transaction for that.

use crate::{
    StoreError,
    keyspace::notify::{self, Seen},
};
use mundi_engine::Engine;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct PeekInbox {
    pub universe: UniverseId,
    pub world: WorldId,
}

/// The value of the counter, and the version up to which it is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub notify: Seen,
    pub version: u64,
}

impl PeekInbox {
    pub async fn run<E: Engine>(&self, engine: &E) -> Result<Peeked, StoreError> {
        let (notify, version) = notify::read_newest(engine, self.universe, self.world).await?;
        Ok(Peeked { notify, version })
    }

    /// The value in the engine's cache, if it has one, for a turn whose commit
    /// [expects](crate::protocol::CommitTurn::expects_end) it.
    pub async fn run_cached<E: Engine>(&self, engine: &E) -> Result<Option<Peeked>, StoreError> {
        let cached = notify::read_cached(engine, self.universe, self.world).await?;
        Ok(cached.map(|(notify, version)| Peeked { notify, version }))
    }
}
