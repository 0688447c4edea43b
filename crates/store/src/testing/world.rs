//! A world written straight into the keyspace, for tests that need a journal and not the protocols that grow one.

use crate::{
    Fence, StoreError,
    journal::Segments,
    keyspace::{
        baseline, journal_entry,
        journal_head::{self, JournalHead, Position},
        lease::{self, Lease},
        world_meta::{self, InboxBounds, WorldMeta, WorldState},
    },
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{
    Epoch, Hash, Height, UniverseId, WorkerId, WorldId,
    record::{Body, Custom, Payload, Record, SnapshotNote},
};

/// A world that is held under its first epoch.
#[derive(Debug, Clone)]
pub struct HandmadeWorld {
    pub fence: Fence,
    pub head: Height,
    chain: Hash,
}

impl HandmadeWorld {
    /// Writes an empty world, with its lease held.
    pub async fn create<E: Engine>(engine: &E, universe: UniverseId, world: WorldId) -> Result<Self, StoreError> {
        let fence = Fence { universe, world, epoch: Epoch::INITIAL };
        let created = Self { fence, head: Height::GENESIS, chain: Record::CHAIN_START };
        let mut tx = engine.begin().await?;
        let meta = WorldMeta {
            created_at_ns: 0,
            state: WorldState::Live,
            first_record: Record::CHAIN_START,
            first_height: Height::GENESIS,
            lineage: None,
            priority: None,
            hold: None,
            policy: None,
            name: None,
            paused: Some(false),
            paused_from: None,
            inherits_from: None,
            labels: None,
            inbox: InboxBounds { items_max: 1, bytes_max: 1 },
        };
        world_meta::write(&mut tx, universe, world, None, &meta)?;
        lease::write(
            &mut tx,
            universe,
            world,
            &Lease { epoch: Epoch::INITIAL, holder: WorkerId::new(1), probation: None },
        )?;
        created.write_head(&mut tx)?;
        created.write_baseline(&mut tx, Height::GENESIS)?;
        tx.commit().await?;
        Ok(created)
    }

    /// Appends records that carry these payloads.
    pub async fn append<E: Engine>(
        &mut self,
        engine: &E,
        payloads: impl IntoIterator<Item = Payload>,
    ) -> Result<(), StoreError> {
        let mut tx = engine.begin().await?;
        let (first, mut records) = (self.head, Vec::new());
        for payload in payloads {
            let body = Body::Custom(Custom { kind: "test".into(), payload });
            let (bytes, chain) = Record { height: self.head, prev: self.chain, body }.seal();
            records.push(Bytes::from(bytes));
            (self.head, self.chain) = (self.head.next(), chain);
        }
        journal_entry::write(&mut tx, self.fence.universe, self.fence.world, first, &records)?;
        self.write_head(&mut tx)?;
        tx.commit().await?;
        Ok(())
    }

    /// Promotes a snapshot that nobody could restore from.
    pub async fn promote<E: Engine>(&self, engine: &E, height: Height) -> Result<(), StoreError> {
        let mut tx = engine.begin().await?;
        self.write_baseline(&mut tx, height)?;
        tx.commit().await?;
        Ok(())
    }

    /// The lease passes to another worker.
    pub async fn pass_lease<E: Engine>(&self, engine: &E) -> Result<(), StoreError> {
        let mut tx = engine.begin().await?;
        let lease = Lease { epoch: self.fence.epoch.next(), holder: WorkerId::new(2), probation: None };
        lease::write(&mut tx, self.fence.universe, self.fence.world, &lease)?;
        tx.commit().await?;
        Ok(())
    }

    /// Everything goes but the note that the world existed.
    pub async fn delete<E: Engine>(&self, engine: &E) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let mut tx = engine.begin().await?;
        let meta = world_meta::read(&mut tx, universe, world).await?;
        let all = world_meta::world_prefix(universe, world).span();
        tx.delete_range(all.start.as_bytes(), all.end.as_bytes())?;
        if let Some(meta) = meta {
            let after = WorldMeta { state: WorldState::Deleted, ..meta.clone() };
            world_meta::write(&mut tx, universe, world, Some(&meta), &after)?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// The whole journal, from the engine where it is there and from segments where it is not.
    pub async fn read_all<E: Engine>(
        &self,
        engine: &E,
        segments: &impl Segments,
    ) -> Result<Vec<(Height, Bytes)>, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let mut records = Vec::new();
        let mut next = Height::GENESIS;
        while next < self.head {
            let mut tx = engine.begin().await?;
            let page = match journal_entry::read(&mut tx, universe, world, next).await? {
                Some(record) => vec![(next, record.bytes)],
                None => segments.read(universe, world, next, self.head).await?.unwrap_or_default(),
            };
            let Some((last, _)) = page.last() else { return Ok(records) };
            next = last.next();
            records.extend(page);
        }
        Ok(records)
    }

    /// How many records are in the engine.
    pub async fn hot<E: Engine>(&self, engine: &E) -> Result<usize, StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let span = journal_entry::prefix(universe, world).span();
        let entries = engine.begin().await?.range(span.read(10_000)).await?.items;
        let records = |(key, value): &(Bytes, Bytes)| Ok(journal_entry::records(universe, world, key, value)?.len());
        entries.iter().map(records).sum()
    }

    fn write_head<T: Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
        let position = Position::new(JournalHead { height: self.head, chain: self.chain });
        journal_head::write(tx, self.fence.universe, self.fence.world, position)
    }

    fn write_baseline<T: Transaction>(&self, tx: &mut T, height: Height) -> Result<(), StoreError> {
        let note = SnapshotNote {
            snapshot: Hash::of(b"snapshot"),
            height,
            logical_time_ns: 0,
            receipt_horizon: Some(height),
            manifest: Hash::of(b"manifest"),
            chain: Record::CHAIN_START,
        };
        baseline::write(tx, self.fence.universe, self.fence.world, &note)
    }
}
