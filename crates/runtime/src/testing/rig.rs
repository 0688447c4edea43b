//! A plane in memory, and worlds that run the script.

use super::{Executor, Node, manifest, register};
use crate::{
    Plane, RuntimeError, Services,
    effects::usual_retry,
    lifecycle::{NewWorld, create, register_trusted},
    world::{CycleBudget, Progress, WorldHost},
};
use bytes::Bytes;
use mundi_engine::{Engine, Memory};
use mundi_kernel::Registry;
use mundi_model::{
    Hash, Height, UniverseId, Value, WorkerId, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_store::{
    Fence, StoreError,
    blob::Blobs,
    journal::{History, NoSegments},
    protocol::{AcquireLease, CreateUniverse, Enqueued, NewItem, enqueue},
    testing::{CountingEntropy, HeapBlobs, Probe},
};
use std::{collections::BTreeMap, sync::Arc};

/// Everything in memory; each operation of the engine lets the other tasks go first.
pub type TestPlane = Plain<Probe<Memory>>;
type Plain<E> = Services<E, HeapBlobs, NoSegments>;

/// One engine, one content store, one universe.
#[derive(Clone)]
pub struct Rig<E: Engine = Probe<Memory>> {
    pub executor: Executor,
    pub plane: Plain<E>,
    pub universe: UniverseId,
    pub manifest: Hash,
}

impl Rig {
    /// # Panics
    ///
    /// If the memory engine refuses, which it never does.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Probe::new(Memory::new()))
    }

    /// Runs a test in the executor.
    pub fn run<V: Send + 'static, F: Future<Output = V> + Send + 'static>(test: impl FnOnce(Self) -> F) -> V {
        let rig = Self::new(1);
        let executor = rig.executor.clone();
        executor.block_on(test(rig))
    }
}

impl<E: Engine> Rig<E> {
    /// # Panics
    ///
    /// If the engine refuses.
    pub fn with(seed: u64, engine: E) -> Self {
        let executor = Executor::new(seed);
        let mut registry = Registry::new();
        let descriptor = register(&mut registry);
        let plane = Services {
            engine,
            blobs: HeapBlobs::default(),
            segments: NoSegments,
            clock: Arc::new(executor.clone()),
            entropy: Arc::new(CountingEntropy::default()),
            registry: Arc::new(registry),
            spawner: Arc::new(executor.node()),
            retry: usual_retry(),
        };
        let universe = UniverseId::from_bytes([1; 16]);
        let bytes = manifest().to_bytes();
        let rig = Self { executor, plane, universe, manifest: Hash::of(&bytes) };
        let setting = rig.clone();
        let set_up = async move {
            let plane = &setting.plane;
            plane.run(&CreateUniverse { universe, now_ns: 1 }).await?;
            let manifest = plane.blobs.put(universe, Bytes::from(bytes), &[]).await?;
            plane.blobs.put(universe, Bytes::from(descriptor), &[]).await?;
            register_trusted(plane, universe, &[manifest]).await
        };
        #[expect(clippy::expect_used, reason = "a test cannot go on without its universe")]
        rig.executor.block_on(set_up).expect("a universe");
        rig
    }

    /// The same plane for the tasks of a node.
    pub fn on(&self, node: &Node) -> Plain<E> {
        Services { spawner: Arc::new(node.clone()), ..self.plane.clone() }
    }

    /// Creates a world that runs the script.
    pub async fn create(&self, world: WorldId) -> Result<(), RuntimeError> {
        let Self { plane, universe, manifest, .. } = self;
        let new = NewWorld { universe: *universe, world, manifest: *manifest, inbox: None, now_ns: 1_000 };
        create(plane, new).await.map(drop)
    }

    /// Takes the lease, as this worker.
    pub async fn acquire(&self, world: WorldId, worker: WorkerId) -> Result<Fence, StoreError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        let request = AcquireLease { universe, world, worker, now_ns, ttl_ns: 20_000_000_000, opening: None };
        Ok(self.plane.run(&request).await?.output.fence)
    }

    /// The world in memory, under a new lease of this worker.
    pub async fn host(&self, world: WorldId, worker: WorkerId) -> Result<WorldHost<Plain<E>>, RuntimeError> {
        WorldHost::restore(self.plane.clone(), self.acquire(world, worker).await?).await
    }

    /// Hands scripts to a hosted world, one by one, and takes turns until nothing is left.
    pub async fn tell(&self, host: &mut WorldHost<Plain<E>>, scripts: &[&str]) -> Result<(), RuntimeError> {
        for script in scripts {
            self.send(host.id(), vec![script_event(script)]).await?;
            while host.turn(&CycleBudget::default()).await? != Progress::Idle {}
        }
        Ok(())
    }

    pub async fn send(&self, world: WorldId, inputs: Vec<Input>) -> Result<Vec<Enqueued>, StoreError> {
        let items = inputs.into_iter().map(item).collect();
        self.enqueue(world, items).await
    }

    pub async fn enqueue(&self, world: WorldId, items: Vec<NewItem>) -> Result<Vec<Enqueued>, StoreError> {
        let Self { plane, universe, .. } = self;
        enqueue(&plane.engine, &*plane.clock, &plane.blobs, *universe, world, items, 3_600_000_000_000).await
    }

    /// The whole journal, byte by byte.
    pub async fn journal(&self, world: WorldId) -> Result<Vec<Bytes>, StoreError> {
        let history = History::open(&self.plane.engine, NoSegments, self.universe, world, Height::GENESIS).await?;
        Ok(history.collect().await?.into_iter().map(|record| record.bytes).collect())
    }
}

/// A cell of a hosted world, as text.
pub async fn cell<P: Plane>(host: &mut WorldHost<P>, key: &str) -> Result<Vec<u8>, RuntimeError> {
    host.query("cell", &cbor::encode(&Value::Text(key.into()))).await
}

/// How many scripts a hosted world has taken.
pub async fn taken<P: Plane>(host: &mut WorldHost<P>) -> Result<u64, RuntimeError> {
    Ok(cell(host, "taken").await?.try_into().map_or(0, u64::from_be_bytes))
}

fn item(input: Input) -> NewItem {
    let origin = Origin { wants_reply: true, ..Origin::new(0) };
    NewItem { item: InboxItem { input, origin }, dedupe: None }
}

/// An event that carries a script.
pub fn script_event(script: &str) -> Input {
    let value = Payload::Inline(cbor::encode(&Value::Text(script.into())));
    Input::Event { schema: "script".into(), value, key: None }
}

/// The same as an item, for which someone waits.
pub fn call(script: &str) -> NewItem {
    item(script_event(script))
}

pub fn message(text: &str) -> Input {
    Input::Message { inbox: "script".into(), payload: Payload::Inline(text.into()), headers: BTreeMap::new() }
}

pub fn control(command: &str) -> Input {
    Input::Control { command: command.into(), payload: Payload::Inline(Vec::new()) }
}
