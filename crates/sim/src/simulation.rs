//! For tests of your own: your programs in a simulated universe.

use crate::{
    checkers::{self, Evidence},
    cluster::{Role, SimPlane},
    fault_driver::FaultDriver,
    faults::Faults,
    log::Commit,
    notes::Notes,
    run::Failure,
    run_state::RunState,
};
use bytes::Bytes;
use mundi_kernel::{Registry, manifest::Manifest, program::Program, registry::native_descriptor};
use mundi_model::{
    Epoch, Hash, Height, InboxSeq, UniverseId, Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload, Record, ReplyOutcome},
};
use mundi_runtime::{
    Plane, RuntimeError, Spawn,
    calls::Calls,
    control::Ops,
    effects::Adapter,
    lifecycle::{NewWorld, create, register_trusted},
    world::WorldHost,
};
use mundi_store::{Fence, blobs::NO_REFS, journal::History, protocol::CreateUniverse, testing::world_id};
use std::{future::Future, sync::Arc, time::Duration};

/// How often something is tried again that a fault has hit.
const TRIES_MAX: u32 = 50;

/// A universe that is being prepared: programs, the world outside, and what is to go wrong.
///
/// Time is virtual, and everything follows from the seed: a test that fails once fails always.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use mundi_runtime::effects::{Adapter, Call};
/// use mundi_kernel::{manifest::{EffectRule, Schema}, program::{Cause, Event, Failure, Host, Program}};
/// use mundi_model::{Value, cbor};
/// use mundi_sim::Simulation;
/// use std::time::Duration;
///
/// /// Charges a card for each order, and counts what was paid.
/// struct Orders;
/// impl Program for Orders {
///     fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
///         match event.cause {
///             Cause::Event { value, .. } => Ok(host.emit("card.charge", value, "")?),
///             Cause::Receipt { .. } => {
///                 let paid = host.get("paid")?.map_or(0, |bytes| bytes[0]);
///                 Ok(host.put("paid", &[paid + 1])?)
///             }
///             _ => Ok(()),
///         }
///     }
/// }
///
/// /// The bank, as the test wants it.
/// struct Bank;
/// impl Adapter for Bank {
///     fn name(&self) -> &str { "bank" }
///     fn kinds(&self) -> &[&str] { &["card.charge"] }
///     fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, mundi_store::protocol::Failure>> {
///         Box::pin(async move {
///             if call.attempt == 1 { Err(mundi_runtime::effects::failed("the line is busy")) } else { Ok(Value::Null) }
///         })
///     }
/// }
///
/// let mut simulation = Simulation::new(7).faults("crashes,lost-replies,latency".parse()?).adapter(Bank);
/// let mut manifest = simulation.program("orders", 1, Orders);
/// manifest.events.insert("order".into(), Schema::anything());
/// manifest.effects.insert("card.charge".into(), EffectRule::default());
///
/// let mut universe = simulation.start()?;
/// let world = universe.create(&manifest)?;
/// for card in ["4711", "0815"] {
///     universe.send(world, "order", &Value::Text(card.into()))?;
/// }
/// universe.run_for(Duration::from_secs(5)); // workers crash, replies are lost
/// universe.rest()?;                         // nothing goes wrong any more: everything must come to its end
///
/// assert_eq!(universe.cell(world, "paid")?, Some(vec![2]));
/// let intents = universe.journal(world)?.into_iter().filter(|it| matches!(it.body, mundi_model::record::Body::Intent(_)));
/// assert_eq!(intents.count(), 2);
/// universe.finish()?; // and every promise of `docs/reference/guarantees.md` was kept, replay included
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    seed: u64,
    faults: Faults,
    registry: Registry,
    descriptors: Vec<String>,
    adapters: Vec<Arc<dyn Adapter>>,
    workers: usize,
    watchers: usize,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        let faults = Faults::none();
        let registry = Registry::new();
        Self { seed, faults, registry, descriptors: Vec::new(), adapters: Vec::new(), workers: 2, watchers: 0 }
    }

    /// The faults while the universe runs; without them, there are none.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// A part of the world outside. `fabric.send` and `world.call` are served already.
    #[must_use]
    pub fn adapter(mut self, adapter: impl Adapter + 'static) -> Self {
        self.adapters.push(Arc::new(adapter));
        self
    }

    /// How many nodes run worlds.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How many nodes watch pools.
    #[must_use]
    pub fn watchers(mut self, watchers: usize) -> Self {
        self.watchers = watchers;
        self
    }

    /// Makes a program known, and gives a manifest for it that allows nothing yet.
    pub fn program(&mut self, name: &str, version: u32, program: impl Program + 'static) -> Manifest {
        self.descriptors.push(native_descriptor(name, version));
        Manifest::new(self.registry.register_native(name, version, program))
    }

    /// Starts the nodes; from now on faults strike.
    pub fn start(self) -> Result<Simulated, RuntimeError> {
        let Self { seed, faults, registry, descriptors, adapters, workers, watchers } = self;
        let run_state = RunState::new(seed, faults, true);
        let mut cast = vec![Role::Worlds; workers];
        cast.extend([Role::Adapters, Role::Timers]);
        cast.extend(vec![Role::Watcher; watchers]);
        let driver = FaultDriver::new(run_state.clone(), registry, vec![cast], &[], adapters, Notes::default());
        let simulated = Simulated { plane: driver.operator(), driver, run_state, worlds: 0 };
        let plane = simulated.plane.clone();
        simulated.block_on(async move {
            let universe = Simulated::UNIVERSE;
            plane.run(&CreateUniverse { universe, now_ns: plane.now_ns() }).await?;
            for descriptor in descriptors {
                plane.blobs.put(universe, Bytes::from(descriptor), NO_REFS).await?;
            }
            Ok::<_, RuntimeError>(())
        })?;
        simulated.driver.start_all();
        let driver = simulated.driver.clone();
        simulated.run_state.executor().node().spawn(Box::pin(async move {
            loop {
                driver.trouble().await;
            }
        }));
        Ok(simulated)
    }
}

/// A universe that runs, on virtual time.
pub struct Simulated {
    driver: FaultDriver,
    run_state: RunState,
    plane: SimPlane,
    worlds: u64,
}

impl Simulated {
    /// The one universe that there is.
    pub const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);

    /// Creates a world that runs a manifest.
    pub fn create(&mut self, manifest: &Manifest) -> Result<WorldId, RuntimeError> {
        let manifest = self.register(manifest)?;
        self.worlds += 1;
        let (world, now_ns) = (world_id(self.worlds), self.run_state.now_ns());
        self.retry(move |plane| async move {
            create(&plane, NewWorld { universe: Self::UNIVERSE, world, manifest, inbox: None, now_ns }).await
        })?;
        Ok(world)
    }

    /// Makes a manifest known to the universe.
    pub(crate) fn register(&self, manifest: &Manifest) -> Result<Hash, RuntimeError> {
        let bytes = Bytes::from(manifest.to_bytes());
        let manifest = Hash::of(&bytes);
        self.retry(move |plane| {
            let bytes = bytes.clone();
            async move {
                plane.blobs.put(Self::UNIVERSE, bytes, NO_REFS).await?;
                register_trusted(&plane, Self::UNIVERSE, &[manifest]).await
            }
        })?;
        Ok(manifest)
    }

    /// The commits so far.
    pub(crate) fn commits(&self) -> Vec<Commit> {
        self.run_state.commits()
    }

    /// Sends an event, again and again until it is acknowledged; it arrives once. Says where in the inbox it stands.
    pub fn send(&mut self, world: WorldId, schema: &str, value: &Value) -> Result<InboxSeq, RuntimeError> {
        let key = format!("event {}", self.run_state.tick());
        let input = Input::Event { schema: schema.to_owned(), value: Payload::Inline(cbor::encode(value)), key: None };
        let enqueued_at_ns = self.run_state.now_ns();
        let origin = Origin { wants_reply: true, ..Origin::new(enqueued_at_ns) };
        let item = InboxItem { input, origin };
        let placed =
            self.retry(move |plane| {
                let (item, key) = (item.clone(), key.clone());
                async move {
                    Ops::new(plane, Self::UNIVERSE, Calls::default()).enqueue_ingress(world, item, Some(&key)).await
                }
            })?;
        Ok(placed.seq)
    }

    /// The reply to what was sent, if it is there within a second.
    pub fn reply(&mut self, world: WorldId, seq: InboxSeq) -> Result<Option<ReplyOutcome>, RuntimeError> {
        let reply = self.retry(move |plane| async move {
            let ops = Ops::new(plane, Self::UNIVERSE, Calls::default());
            match ops.reply(world, seq.into(), Duration::from_secs(1)).await {
                Err(RuntimeError::CallTimeout { .. }) => Ok(None),
                reply => reply.map(Some),
            }
        })?;
        Ok(reply)
    }

    /// Gives a world's lease back behind its holder's back: what the holder commits after this is refused. Says whether
    /// anyone held it.
    pub fn revoke(&mut self, world: WorldId) -> Result<bool, RuntimeError> {
        self.retry(move |plane| async move {
            let ops = Ops::new(plane, Self::UNIVERSE, Calls::default());
            let Some(lease) = ops.describe_world(world).await?.lease else { return Ok(false) };
            match ops.release_lease(world, lease.epoch).await {
                Err(error) if error.is_transient() => Err(error),
                released => Ok(released.is_ok()), // someone else may have been faster
            }
        })
    }

    /// Lets time pass.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_state.executor().run_for(duration);
    }

    /// Nothing goes wrong any more, and everything that was begun must come to its end: inboxes, timers, effects.
    pub fn rest(&mut self) -> Result<(), Failure> {
        let driver = self.driver.clone();
        self.block_on(async move { driver.heal().await }).map_err(|what| Failure { checker: "liveness", what })
    }

    /// A cell of a world, as its journal has it now.
    pub fn cell(&mut self, world: WorldId, key: &str) -> Result<Option<Vec<u8>>, RuntimeError> {
        let key = key.to_owned();
        self.retry(move |plane| {
            let key = key.clone();
            async move {
                // Nothing is written under this fence, so it need not be held.
                let fence = Fence { universe: Self::UNIVERSE, world, epoch: Epoch::INITIAL };
                WorldHost::restore(plane, fence).await?.cell(&key).await
            }
        })
    }

    /// The records of a world, from its genesis on.
    pub fn journal(&mut self, world: WorldId) -> Result<Vec<Record>, RuntimeError> {
        let records = self.retry(move |plane| async move {
            let segments = plane.segments.clone();
            let history = History::open(&plane.engine, segments, Self::UNIVERSE, world, Height::GENESIS).await?;
            Ok(history.collect().await?)
        })?;
        Ok(records.iter().filter_map(|record| record.decode().ok()).collect())
    }

    /// The history so far, line by line.
    pub fn trace(&mut self) -> Vec<String> {
        self.run_state.take_trace()
    }

    /// Comes to rest, stops everything, and checks every promise: among them that each world replays from genesis to the
    /// same state, which a program that is not deterministic breaks.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.rest()?;
        self.driver.stop();
        let (run_state, driver, plane) = (self.run_state.clone(), self.driver.clone(), self.plane.clone());
        let evidence =
            self.block_on(
                async move { Evidence::gather(&run_state, driver.ground(), &plane, driver.notes(), true).await },
            )?;
        checkers::check(&evidence)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.plane.now_ns()
    }

    /// Runs a protocol of the store, again and again until no fault is in the way.
    pub(crate) fn run_protocol<P>(&self, protocol: P) -> Result<P::Output, RuntimeError>
    where
        P: mundi_store::Protocol<Output: 'static> + Clone + Send + 'static,
    {
        self.retry(move |plane| {
            let protocol = protocol.clone();
            async move { Ok(plane.run(&protocol).await?.output) }
        })
    }

    /// Tries until no fault is in the way.
    pub(crate) fn retry<V: Send + 'static, F: Future<Output = Result<V, RuntimeError>> + Send>(
        &self,
        attempt: impl Fn(SimPlane) -> F + Send + 'static,
    ) -> Result<V, RuntimeError> {
        let (plane, run_state) = (self.plane.clone(), self.run_state.clone());
        self.block_on(async move {
            let mut tries = 1;
            loop {
                match attempt(plane.clone()).await {
                    Err(error) if error.is_transient() && tries < TRIES_MAX => run_state.sleep_ms(100).await,
                    result => return result,
                }
                tries += 1;
            }
        })
    }

    fn block_on<V: Send + 'static>(&self, future: impl Future<Output = V> + Send + 'static) -> V {
        self.run_state.executor().block_on(future)
    }
}
