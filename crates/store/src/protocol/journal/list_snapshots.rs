//! List the snapshots of a world, the newest first, in pages.
//!
//! Guarantees: each page is one consistent moment.
//! Unknown commit: cannot be; it writes nothing.

use crate::protocol::{page::Page, require_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Family, Span, decode_value, snapshot},
};
use mundi_engine::Transaction;
use mundi_model::{Height, UniverseId, WorldId, limits, record::SnapshotNote};

#[derive(Debug, Clone, Copy)]
pub struct ListSnapshots {
    pub universe: UniverseId,
    pub world: WorldId,
    /// Those below this height.
    pub below: Option<Height>,
    pub items_max: usize,
}

impl Protocol for ListSnapshots {
    type Output = Page<SnapshotNote, Height>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Page<SnapshotNote, Height>, StoreError> {
        let Self { universe, world, below, items_max } = *self;
        require_world(tx, universe, world).await?;
        let all = snapshot::prefix(universe, world).span();
        let span = match below {
            Some(below) => Span { end: snapshot::key(universe, world, below), ..all },
            None => all,
        };
        let found = tx.range(span.read(items_max.clamp(1, limits::LIST_ITEMS_MAX)).reverse().snapshot()).await?;
        let note = |(key, bytes): &(bytes::Bytes, bytes::Bytes)| decode_value(Family::Snapshot, key, bytes);
        let items = found.items.iter().map(note).collect::<Result<Vec<SnapshotNote>, _>>()?;
        let next = items.last().filter(|_| found.more).map(|note| note.height);
        Ok(Page { items, next })
    }
}
