//! Read what the program of a world logged last.
//!
//! Guarantees: lines come in the order in which they were logged, each with its number; none is told that the journal does not lead
//! up to, because a page is written with the turn whose steps logged.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::require_world;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::world_log::{self, LogPage, LoggedLine},
};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId};

#[derive(Debug, Clone, Copy)]
pub struct ReadLogs {
    pub universe: UniverseId,
    pub world: WorldId,
}

/// The kept end of a world's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    pages: Vec<LogPage>,
}

impl LogTail {
    /// The page that the next line goes to.
    pub fn into_newest(mut self) -> LogPage {
        self.pages.pop().unwrap_or_default()
    }

    /// The lines, each with its number.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = (u64, &LoggedLine)> {
        self.pages
            .iter()
            .flat_map(|page| page.lines.iter().enumerate().map(move |(place, line)| (page.first + place as u64, line)))
    }
}

impl Protocol for ReadLogs {
    type Output = LogTail;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<LogTail, StoreError> {
        let Self { universe, world } = *self;
        require_world(tx, universe, world).await?;
        Ok(LogTail { pages: world_log::read(tx, universe, world).await? })
    }
}
