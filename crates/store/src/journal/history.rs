//! Reading a journal: in pages, across ancestors, segments and the hot tail, with every link of the chain
//! checked on the way.

use super::{JournalError, Segments};
use crate::{
    StoreError,
    journal::append,
    keyspace::{journal_entry, journal_head::JournalHead, world_meta},
    protocol::require_world,
};
use bytes::Bytes;
use minicbor::Decoder;
use mundi_engine::{Engine, Transaction};
use mundi_model::{Hash, Height, UniverseId, WorldId, cbor, limits, record::Record};

/// Enough to make a transaction per page cheap, little enough to hold.
const PAGE_ITEMS_DEFAULT: usize = 1_000;

/// One record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub height: Height,
    pub bytes: Bytes,
    /// The hash of the bytes: what the next record names.
    pub hash: Hash,
}

impl StoredRecord {
    /// What it says. The chain has been checked, so this fails only for records of a later format.
    pub fn decode(&self) -> Result<Record, cbor::CborError> {
        cbor::decode(&self.bytes)
    }
}

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
    /// What the head says about the record below it: the last link.
    head: JournalHead,
    page_items: usize,
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
        let head = append::head(&mut tx, universe, world).await?;
        let stretches = stretches(&mut tx, universe, world, from, head.height).await?;
        let chain = (from == Height::GENESIS).then_some(Record::CHAIN_START);
        let (engine, page_items) = (engine.clone(), PAGE_ITEMS_DEFAULT);
        Ok(Self { engine, segments, universe, stretches, next: from, chain, head, page_items })
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

    /// How many records a page holds at most.
    pub fn pages_of(mut self, items: usize) -> Self {
        self.page_items = items.clamp(1, limits::RANGE_ITEMS_MAX);
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
        let mut records = Vec::with_capacity(page.len());
        for (height, bytes) in page {
            records.push(self.verify(stretch, height, bytes)?);
        }
        Ok(Some(records))
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
    async fn hot_page(&self, stretch: Stretch) -> Result<Option<Vec<(Height, Bytes)>>, StoreError> {
        let mut tx = self.engine.begin().await?;
        let span = journal_entry::span(self.universe, stretch.world, self.next, stretch.until);
        let page = tx.range(span.read(self.page_items).snapshot()).await?;
        let mut records = Vec::with_capacity(page.items.len());
        for (key, bytes) in page.items {
            records.push((journal_entry::parse(self.universe, stretch.world, &key)?, bytes));
        }
        Ok(records.first().is_some_and(|(height, _)| *height == self.next).then_some(records))
    }

    /// Records from segments. What is in neither place is lost, and that is said, not skipped.
    async fn cold_page(&self, stretch: Stretch) -> Result<Vec<(Height, Bytes)>, StoreError> {
        let page = self.segments.read(self.universe, stretch.world, self.next, stretch.until).await?;
        match page {
            Some(page) if !page.is_empty() => Ok(page),
            _ => Err(JournalError::Gap { world: stretch.world, height: self.next, head: stretch.until }.into()),
        }
    }

    fn verify(&mut self, stretch: Stretch, height: Height, bytes: Bytes) -> Result<StoredRecord, JournalError> {
        if height != self.next {
            return Err(JournalError::Gap { world: stretch.world, height: self.next, head: stretch.until });
        }
        let damaged = |cause| JournalError::RecordDamaged { world: stretch.world, height, cause };
        let (says, prev) = link(&bytes).map_err(|cause| damaged(cause.to_string()))?;
        if says != height {
            return Err(damaged(format!("it says that it stands at {says}")));
        }
        if let Some(expected) = self.chain.filter(|expected| *expected != prev) {
            return Err(damaged(format!("it follows {prev}, but the record below is {expected}")));
        }
        let hash = Hash::of(&bytes);
        if height.next() == self.head.height && hash != self.head.chain {
            return Err(damaged(format!("it is {hash}, but the head follows {}", self.head.chain)));
        }
        (self.next, self.chain) = (height.next(), Some(hash));
        Ok(StoredRecord { height, bytes, hash })
    }
}

/// The height and the predecessor that a record names, without decoding what it carries.
fn link(bytes: &[u8]) -> Result<(Height, Hash), minicbor::decode::Error> {
    let mut decoder = Decoder::new(bytes);
    if decoder.array()? != Some(3) {
        return Err(minicbor::decode::Error::message("a record has three parts"));
    }
    Ok((decoder.decode()?, decoder.decode()?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::record::Body;
    use proptest::prelude::*;

    #[test]
    fn the_link_is_what_the_record_says() {
        let record = Record { height: Height::new(77), prev: Hash::of(b"p"), body: Body::OutcomeDigest(Hash::of(b"")) };
        assert_eq!(link(&record.seal().0).unwrap(), (Height::new(77), Hash::of(b"p")));
    }

    proptest! {
        #[test]
        fn the_link_of_arbitrary_bytes_is_refused_or_right(bytes: Vec<u8>) {
            if let Ok(record) = cbor::decode::<Record>(&bytes) {
                prop_assert_eq!(link(&bytes).unwrap(), (record.height, record.prev));
            } else {
                let _ = link(&bytes);
            }
        }
    }
}
