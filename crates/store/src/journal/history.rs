//! Reading a journal: in pages, across ancestors, segments and the hot tail, with every link of the chain
//! checked on the way.

use super::{JournalError, Segments};
use crate::{
    StoreError,
    journal::append,
    keyspace::{
        journal_entry::{self, Link, StoredRecord},
        journal_head::JournalHead,
        world_meta,
    },
    protocol::require_world,
};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, Height, UniverseId, WorldId, limits, record::Record};

/// Enough to make a transaction per page cheap, little enough to hold.
const PAGE_ENTRIES_DEFAULT: usize = 1_000;

/// A part of a history: the heights that lie in one world's own journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    world: WorldId,
    until: Height,
}

/// A reader of the records `from..until` of a world, oldest first.
///
/// It fixes its end when it is opened, so it ends even while others append. Each page is read in a
/// transaction of its own: records are immutable, so no page can contradict another.
pub struct History<E, S> {
    engine: E,
    segments: S,
    universe: UniverseId,
    /// Nearest in time last.
    stretches: Vec<Stretch>,
    /// The next height to read, and the hash that its record must name, once known.
    next: Height,
    chain: Option<Hash>,
    /// The head's link to the record below it.
    head: JournalHead,
    page_entries: usize,
}

impl<E: Engine, S: Segments> History<E, S> {
    /// Opens the records of a world from a height on, up to its head.
    pub async fn open(
        engine: &E,
        segments: S,
        universe: UniverseId,
        world: WorldId,
        from: Height,
    ) -> Result<Self, StoreError> {
        let mut tx = engine.begin().await?;
        let head = append::position(&mut tx, universe, world).await?.head;
        let stretches = stretches(&mut tx, universe, world, from, head.height).await?;
        let chain = (from == Height::GENESIS).then_some(Record::CHAIN_START);
        let (engine, page_entries) = (engine.clone(), PAGE_ENTRIES_DEFAULT);
        Ok(Self { engine, segments, universe, stretches, next: from, chain, head, page_entries })
    }

    /// The first record must name this hash: for a reader that knows what lies below.
    pub fn after(mut self, chain: Hash) -> Self {
        self.chain = Some(chain);
        self
    }

    /// Ends before this height, if that is sooner.
    pub fn until(mut self, until: Height) -> Self {
        for stretch in &mut self.stretches {
            stretch.until = stretch.until.min(until);
        }
        self
    }

    /// From how many entries of the engine a page is made; each is what was appended together, at least a record.
    pub fn pages_of(mut self, entries: usize) -> Self {
        self.page_entries = entries.clamp(1, limits::RANGE_ITEMS_MAX);
        self
    }

    /// The head of the journal when it was opened.
    pub fn head(&self) -> Height {
        self.head.height
    }

    /// The next page; `None` at the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<StoredRecord>>, StoreError> {
        let Some(stretch) = self.current() else { return Ok(None) };
        let page = match self.hot_page(stretch).await? {
            Some(page) => page,
            None => self.cold_page(stretch).await?,
        };
        page.iter().try_for_each(|record| self.verify(stretch, record))?;
        Ok(Some(page))
    }

    /// All that is left. For histories that fit into memory; others go page by page.
    pub async fn collect(mut self) -> Result<Vec<StoredRecord>, StoreError> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    fn current(&mut self) -> Option<Stretch> {
        while self.stretches.last().is_some_and(|stretch| stretch.until <= self.next) {
            self.stretches.pop();
        }
        self.stretches.last().copied()
    }

    /// Records from the engine; `None` if the next one is not there.
    async fn hot_page(&self, stretch: Stretch) -> Result<Option<Vec<StoredRecord>>, StoreError> {
        let mut tx = self.engine.begin().await?;
        let Stretch { world, until } = stretch;
        let page = journal_entry::read_some(&mut tx, self.universe, world, self.next, until, self.page_entries).await?;
        Ok(page.first().is_some_and(|record| record.height == self.next).then_some(page))
    }

    /// Records from segments. What is in neither place is lost, and that is said, not skipped.
    async fn cold_page(&self, stretch: Stretch) -> Result<Vec<StoredRecord>, StoreError> {
        let page = self.segments.read(self.universe, stretch.world, self.next, stretch.until).await?;
        match page {
            Some(page) if !page.is_empty() => {
                Ok(page.into_iter().map(|(height, bytes)| StoredRecord::new(height, bytes)).collect())
            }
            _ => Err(JournalError::Gap { world: stretch.world, height: self.next, head: stretch.until }.into()),
        }
    }

    fn verify(&mut self, stretch: Stretch, record: &StoredRecord) -> Result<(), JournalError> {
        let StoredRecord { height, hash, .. } = *record;
        if height != self.next {
            return Err(JournalError::Gap { world: stretch.world, height: self.next, head: stretch.until });
        }
        let damaged = |cause| JournalError::RecordDamaged { world: stretch.world, height, cause };
        let Link { height: says, prev, .. } = Link::of(&record.bytes).map_err(|cause| damaged(cause.to_string()))?;
        if says != height {
            return Err(damaged(format!("it says that it stands at {says}")));
        }
        if let Some(expected) = self.chain.filter(|expected| *expected != prev) {
            return Err(damaged(format!("it follows {prev}, but the record below is {expected}")));
        }
        if height.next() == self.head.height && hash != self.head.chain {
            return Err(damaged(format!("it is {hash}, but the head follows {}", self.head.chain)));
        }
        (self.next, self.chain) = (height.next(), Some(hash));
        Ok(())
    }
}

/// In whose journals `from..head` lies: a fork shares the records below its first one with its parent.
async fn stretches<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    from: Height,
    head: Height,
) -> Result<Vec<Stretch>, StoreError> {
    if from > head {
        return Err(JournalError::OutOfRange { world, height: from, first: Height::GENESIS, head }.into());
    }
    let (mut stretches, mut world, mut until) = (Vec::new(), world, head);
    for _ in 0..limits::LINEAGE_DEPTH_MAX {
        let meta: world_meta::WorldMeta = require_world(tx, universe, world).await?;
        stretches.push(Stretch { world, until });
        match meta.lineage {
            Some(lineage) if from < meta.first_height => (world, until) = (lineage.parent, lineage.forked_at),
            _ => return Ok(stretches),
        }
    }
    Err(JournalError::LineageTooDeep { world, max: limits::LINEAGE_DEPTH_MAX }.into())
}
