//! Worlds grown by the protocols themselves, with as few words as a test can spare.

use super::{AppendBatch, DrainInbox, Drained, HeapBlobs, ManualClock, PlainSnapshots};
use crate::{
    Done, Fence, Protocol, StoreError,
    blob::Blobs,
    journal::{Batch, History, NoSegments, StoredRecord},
    keyspace::{inbox_dedupe::DedupeId, journal_head::JournalHead, world_meta::InboxBounds},
    protocol::{
        AcquireLease, CommitSnapshot, CreateUniverse, CreateWorld, Enqueued, Inherited, NewItem, ReadTurn,
        SnapshotCommitted, TurnInput, WorldCreated, commit_snapshot, create_world, enqueue,
    },
    run,
    snapshot::SnapshotFacts,
};
use bytes::Bytes;
use mundi_engine::Engine;
use mundi_model::{
    Hash, Height, UniverseId, WorkerId, WorldId, limits,
    record::{Body, Custom, Genesis, InboxItem, Input, Origin, Payload, Record},
};

/// How long dedupe records live in tests.
const DEDUPE_WINDOW_NS: u64 = 3_600_000_000_000;

/// An engine with what belongs to it, and one universe.
#[derive(Debug, Clone)]
pub struct Fixture<E, B = HeapBlobs> {
    pub engine: E,
    pub clock: ManualClock,
    pub blobs: B,
    pub universe: UniverseId,
    /// The content of the manifest of every world.
    pub manifest: Bytes,
}

impl<E: Engine> Fixture<E> {
    /// A universe on this engine, with blobs on the heap.
    pub async fn new(engine: E, universe: u8) -> Result<Self, StoreError> {
        Self::with_blobs(engine, HeapBlobs::default(), universe).await
    }
}

impl<E: Engine, B: Blobs> Fixture<E, B> {
    pub async fn with_blobs(engine: E, blobs: B, universe: u8) -> Result<Self, StoreError> {
        let (universe, manifest) = (UniverseId::from_bytes([universe; 16]), Bytes::from_static(b"manifest"));
        let fixture = Self { engine, clock: ManualClock::at_ns(1_000), blobs, universe, manifest };
        fixture.run(&CreateUniverse { universe, now_ns: 1 }).await?;
        fixture.blobs.put(universe, fixture.manifest.clone(), &[]).await?;
        Ok(fixture)
    }

    pub async fn run<P: Protocol>(&self, protocol: &P) -> Result<Done<P::Output>, StoreError> {
        run(&self.engine, &self.clock, protocol).await
    }

    pub fn manifest_hash(&self) -> Hash {
        Hash::of(&self.manifest)
    }

    /// The facts of a snapshot that can be committed and promoted.
    pub fn facts(&self, height: Height) -> SnapshotFacts {
        SnapshotFacts {
            height,
            logical_time_ns: 7,
            manifest: self.manifest_hash(),
            roots: vec![self.manifest_hash()],
            receipt_horizon: Some(height),
            open_intents: Vec::new(),
            paused: false,
        }
    }

    pub async fn create(&self, world: WorldId, inbox: Option<InboxBounds>) -> Result<WorldCreated, StoreError> {
        let request = CreateWorld { inbox, ..self.beginning(world) };
        create_world(&self.engine, &self.clock, &self.blobs, &PlainSnapshots, request).await
    }

    /// The creation of a new world.
    pub fn beginning(&self, world: WorldId) -> CreateWorld {
        let genesis = Genesis { universe: self.universe, world, manifest: self.manifest_hash(), now_ns: 5 };
        let first = Record { height: Height::GENESIS, prev: Record::CHAIN_START, body: Body::Genesis(genesis) };
        let snapshot = PlainSnapshots::encode(&self.facts(Height::GENESIS));
        CreateWorld {
            universe: self.universe,
            world,
            first,
            snapshot,
            inbox: None,
            inherited: Inherited::default(),
            commands: Vec::new(),
            name: None,
            labels: None,
            now_ns: 5,
        }
    }

    /// # Panics
    ///
    /// For worker 0, which cannot be.
    pub async fn acquire(&self, world: WorldId, worker: u64) -> Result<Fence, StoreError> {
        #[expect(clippy::expect_used, reason = "a test that names worker 0 is wrong")]
        let worker = WorkerId::new(worker).expect("a worker id");
        let (universe, now_ns) = (self.universe, crate::Clock::now_ns(&self.clock));
        let request = AcquireLease { universe, world, worker, now_ns, ttl_ns: 20_000_000_000, opening: None };
        Ok(self.run(&request).await?.output.fence)
    }

    /// A new world, held by worker 1.
    pub async fn live(&self, number: u64) -> Result<Fence, StoreError> {
        let world = world_id(number);
        self.create(world, None).await?;
        self.acquire(world, 1).await
    }

    pub async fn send(&self, world: WorldId, items: Vec<NewItem>) -> Result<Vec<Enqueued>, StoreError> {
        let Self { engine, clock, blobs, universe, .. } = self;
        enqueue(engine, clock, blobs, *universe, world, items, DEDUPE_WINDOW_NS).await
    }

    pub async fn drain(&self, fence: Fence, items_max: usize) -> Result<Drained, StoreError> {
        let drain = DrainInbox { fence, items_max, bytes_max: limits::TURN_BYTES_MAX, now_ns: 77, seed: [3; 16] };
        Ok(self.run(&drain).await?.output)
    }

    pub async fn read_turn(&self, fence: Fence) -> Result<TurnInput, StoreError> {
        let read = ReadTurn { fence, cursor_seen: None, items_max: 100, bytes_max: limits::TURN_BYTES_MAX };
        Ok(self.run(&read).await?.output)
    }

    /// Appends records that say only their number.
    pub async fn append(&self, fence: Fence, count: u32) -> Result<JournalHead, StoreError> {
        let head = self.read_turn(fence).await?.head;
        let batch = Batch::from_bodies(head, (0..count).map(note_body))?;
        Ok(self.run(&AppendBatch { fence, batch }).await?.output)
    }

    pub async fn snapshot(
        &self,
        fence: Fence,
        facts: &SnapshotFacts,
        promote: bool,
    ) -> Result<SnapshotCommitted, StoreError> {
        let request = CommitSnapshot { fence, bytes: PlainSnapshots::encode(facts), promote };
        commit_snapshot(&self.engine, &self.clock, &self.blobs, &PlainSnapshots, &request).await
    }

    pub async fn history(&self, world: WorldId, from: Height) -> Result<Vec<StoredRecord>, StoreError> {
        History::open(&self.engine, NoSegments, self.universe, world, from).await?.collect().await
    }
}

/// The id of a test's world.
pub fn world_id(number: u64) -> WorldId {
    let mut id = [0; 16];
    id.copy_from_slice(&Hash::of(&number.to_be_bytes()).as_bytes()[..16]);
    WorldId::from_bytes(id)
}

/// An event that carries a text.
pub fn event(text: &str) -> NewItem {
    let origin = Origin::new(9);
    let value = Payload::Inline(text.as_bytes().to_vec());
    let input = Input::Event { schema: "test".into(), value, key: None };
    NewItem { item: InboxItem { input, origin }, dedupe: None }
}

/// The same, enqueued at most once.
pub fn named_event(text: &str) -> NewItem {
    NewItem { dedupe: Some(DedupeId::idempotency_key(text)), ..event(text) }
}

/// A record that says only its number.
pub fn note_body(number: u32) -> Body {
    Body::Custom(Custom { kind: "note".into(), payload: Payload::Inline(number.to_be_bytes().to_vec()) })
}
