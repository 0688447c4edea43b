//! Look whether anything was enqueued since an inbox was read to its end.
//!
//! Guarantees: if the counter says what it said then, nothing was committed to the inbox in between, up to the version
//! that is returned: every enqueue raises it in its own transaction. Asks for one key instead of a range.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::notify::{self, Seen},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct PeekInbox {
    pub universe: UniverseId,
    pub world: WorldId,
}

/// What the counter says, and the version up to which that is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub notify: Seen,
    pub version: u64,
}

impl Protocol for PeekInbox {
    type Output = Peeked;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Peeked, StoreError> {
        let notify = notify::read(tx, self.universe, self.world).await?;
        Ok(Peeked { notify, version: tx.version().await? })
    }
}
