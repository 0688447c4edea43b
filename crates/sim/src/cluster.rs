//! The nodes of a run, and the roles that they play. All of them run the code that production runs.

use crate::{engine::SimEngine, faults::Fault, link::Link, log::Author, protocol::Protocol, run_state::RunState};
use mundi_adapters::{fabric::FabricAdapter, reach::Reach, world_call::WorldCallAdapter};
use mundi_engine::Memory;
use mundi_kernel::Registry;
use mundi_model::{IntentHash, UniverseId, WorkerId, WorldId, record::InboxItem};
use mundi_runtime::{
    LocalWorlds, Plane, Services, Spawn, Wake,
    calls::Calls,
    control::Ops,
    delivery::local::{Acknowledgement, Awaits},
    effects::{Adapter, AdapterWorker, AdapterWorkerConfig, slots::EffectSlots, usual_retry},
    metrics::Metrics,
    orchestrator::{Orchestrator, OrchestratorConfig},
    shell::{Shell, ShellConfig, WorkerCommands},
    sweeper::{Sweeper, SweeperConfig},
    testing::Node,
    timers::{TimerWorker, TimerWorkerConfig},
    watcher::{Watcher, WatcherConfig},
    worker::{WorkerConfig, WorldWorker},
    world::{CycleBudget, SnapshotPolicy},
};
use mundi_store::{
    Entropy,
    blobs::{Cas, CasConfig},
    keyspace::dedupe_bucket,
    objects::Objects,
    protocol::ExpireDedupe,
    reachability::{GRACE_MIN, SweepConfig},
    segments::SegmentStore,
    testing::{self, CountingEntropy, FaultyObjects, Rates},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Engine, content store and segments of a simulated node.
pub(crate) type SimPlane = Services<SimEngine, Cas<SimEngine>, SegmentStore<SimEngine>>;

/// How long a lease lasts. Everything that waits is scaled to it, so that a minute of simulated time holds many lives.
pub(crate) const LEASE_TTL_MS: u64 = 2_000;
/// How long a claim on an effect lasts without a heartbeat.
pub(crate) const CLAIM_TTL_MS: u64 = 1_500;

/// The part that a node plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Worlds,
    Adapters,
    Timers,
    Orchestrator,
    /// Exports old records of worlds that nobody runs.
    Exporter,
    /// Removes what nothing refers to.
    Sweeper,
    /// Looks at the holders of pools' leases.
    Watcher,
    Client,
}

/// The state that all nodes share: the durable, and the compiled programs.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) run_state: RunState,
    pub(crate) memory: Memory,
    /// The object store as it is.
    pub(crate) objects: FaultyObjects,
    pub(crate) registry: Arc<Registry>,
    /// The world workers that clients may reach in their own process.
    pub(crate) doors: Doors,
    entropy: Arc<dyn Entropy>,
    server: Node,
}

/// World workers by the number of their node, with the universe that they serve. One that crashed takes nothing.
#[derive(Clone)]
pub(crate) struct Doors {
    run_state: RunState,
    workers: Arc<Mutex<BTreeMap<u32, Door>>>,
    /// Of the adapter worker that came last.
    slots: Arc<Mutex<BTreeMap<UniverseId, Arc<EffectSlots>>>>,
    handed: Arc<Mutex<Handed>>,
}

type Door = (UniverseId, WorldWorker<SimPlane>);

/// Answers that adapters handed to worlds past the inbox: by the claim's token and the intent, with the number of the next commit.
pub(crate) type Handed = BTreeMap<([u8; 16], IntentHash), usize>;

impl Doors {
    fn open(&self, node: u32, universe: UniverseId, worker: WorldWorker<SimPlane>) {
        if let Some(slots) = self.slots.lock().get(&universe) {
            worker.register_slots(universe, slots.clone());
        }
        self.workers.lock().insert(node, (universe, worker));
    }

    fn new(run_state: RunState) -> Self {
        Self { run_state, workers: Arc::default(), slots: Arc::default(), handed: Arc::default() }
    }

    pub(crate) fn handed(&self) -> Handed {
        self.handed.lock().clone()
    }

    /// A worker of the universe that holds the world.
    pub(crate) fn of(&self, universe: UniverseId, world: WorldId) -> Option<WorldWorker<SimPlane>> {
        let doors = self.workers.lock();
        let mut workers = doors.values().filter(|(serves, _)| *serves == universe).map(|(_, worker)| worker);
        workers.find(|worker| worker.holds(world)).cloned()
    }

    /// Some worker of the universe, whether it holds any world or not.
    pub(crate) fn any(&self, universe: UniverseId) -> Option<WorldWorker<SimPlane>> {
        let doors = self.workers.lock();
        let workers: Vec<_> = doors.values().filter(|(serves, _)| *serves == universe).collect();
        let chosen = self.run_state.below(u64::try_from(workers.len()).unwrap_or(1).max(1));
        workers.get(usize::try_from(chosen).unwrap_or(0)).map(|(_, worker)| worker.clone())
    }
}

/// Adapters deliver to the worker that holds a world, as if they ran in its process.
impl LocalWorlds for Doors {
    fn offer(
        &self,
        to: (UniverseId, WorldId),
        item: &Arc<InboxItem>,
        awaits: Awaits,
        may_activate: bool,
    ) -> Option<Acknowledgement> {
        if let Awaits::EffectEnd(answered) = awaits {
            let answer = (answered.claim.token, answered.claim.intent);
            self.handed.lock().entry(answer).or_insert(self.run_state.commits_so_far());
        }
        LocalWorlds::offer(&self.of(to.0, to.1)?, to, item, awaits, may_activate)
    }

    fn resident(&self, (universe, world): (UniverseId, WorldId)) -> Option<Wake> {
        let worker = self.of(universe, world)?;
        Some(Box::new(move || worker.wake(world)))
    }

    fn register_slots(&self, universe: UniverseId, slots: Arc<EffectSlots>) {
        self.workers.lock().values().for_each(|(_, worker)| worker.register_slots(universe, slots.clone()));
        self.slots.lock().insert(universe, slots);
    }
}

impl Ground {
    pub(crate) fn new(run_state: RunState, registry: Registry) -> Self {
        let clock = run_state.executor().clone();
        let memory = Memory::with_clock(Arc::new(move || mundi_store::Clock::now_ns(&clock) / 1_000_000));
        let server = run_state.executor().node();
        let entropy = Arc::new(CountingEntropy::default());
        Self {
            doors: Doors::new(run_state.clone()),
            run_state,
            memory,
            objects: FaultyObjects::in_memory(),
            registry: Arc::new(registry),
            entropy,
            server,
        }
    }

    /// The plane of one life of a node.
    pub(crate) fn plane(&self, link: &Link, node: &Node, objects: &FaultyObjects) -> SimPlane {
        let engine = SimEngine::new(self.memory.clone(), self.run_state.clone(), link.clone(), self.server.clone());
        let clock = Arc::new(link.clock().clone());
        let store = Objects::new(Arc::new(objects.clone()));
        // Under tiny limits most bodies go to the object store.
        let inline_bytes_max = if self.run_state.faults().has(Fault::TinyLimits) { 64 } else { 1_024 };
        let config = CasConfig { inline_bytes_max, verify_one_in: 1 };
        let blobs = Cas::new(engine.clone(), store.clone(), clock.clone(), self.entropy.clone(), config);
        Services {
            segments: SegmentStore::new(engine.clone(), store),
            engine,
            blobs,
            clock,
            entropy: self.entropy.clone(),
            registry: self.registry.clone(),
            spawner: Arc::new(node.clone()),
            retry: usual_retry(),
        }
    }

    /// The object store as one node meets it.
    fn objects_of_node(&self) -> FaultyObjects {
        let run_state = &self.run_state;
        let rate = |fault, in_thousand| if run_state.has(fault) { in_thousand } else { 0 };
        let rates = Rates {
            write_refused: rate(Fault::LostObjectReplies, 30),
            reply_lost: rate(Fault::LostObjectReplies, 50),
            read_missing: rate(Fault::MissingObjects, 50),
            slow: rate(Fault::LateObjects, 200),
            ..Rates::default()
        };
        let seen = run_state.clone();
        let observer = move |fault| {
            let (fault, protocol) = match fault {
                testing::Fault::ReadMissing => (Fault::MissingObjects, Protocol::ObjectRead),
                testing::Fault::Slow(_) => {
                    seen.met(Fault::LateObjects, Protocol::ObjectRead);
                    (Fault::LateObjects, Protocol::ObjectWrite)
                }
                _ => (Fault::LostObjectReplies, Protocol::ObjectWrite),
            };
            seen.met(fault, protocol);
        };
        let objects = FaultyObjects::over(self.objects.inner()).with_clock(Arc::new(run_state.executor().clone()));
        objects.with_seed(run_state.below(u64::MAX), rates).with_observer(observer)
    }
}

/// A node: what it is to do, and its present life.
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) universe: UniverseId,
    pub(crate) role: Role,
    pub(crate) life: Option<Life>,
    /// It never comes back.
    pub(crate) is_lost: bool,
    /// It does not come back before it is called.
    pub(crate) is_away: bool,
    lives: u32,
}

/// One life of a node, from its start to its crash.
pub(crate) struct Life {
    pub(crate) link: Link,
    pub(crate) node: Node,
    pub(crate) plane: SimPlane,
    pub(crate) objects: FaultyObjects,
    pub(crate) worker: Option<WorldWorker<SimPlane>>,
}

impl Slot {
    pub(crate) fn new(number: u32, universe: UniverseId, role: Role) -> Self {
        Self { number, universe, role, life: None, is_lost: false, is_away: false, lives: 0 }
    }

    /// The id under which it holds leases and claims: the same in every life.
    pub(crate) fn worker_id(&self) -> WorkerId {
        Author { node: self.number, life: self.lives }.worker()
    }

    /// A new life, which knows only what is durable.
    pub(crate) fn start(&mut self, ground: &Ground, adapters: &[Arc<dyn Adapter>]) {
        self.lives += 1;
        let run_state = &ground.run_state;
        let link = Link::new(run_state, Author { node: self.number, life: self.lives });
        if run_state.has(Fault::ClockSkew) && run_state.below(2) == 0 {
            link.clock().set_offset_ns(offset_ns(run_state));
        }
        let (node, objects) = (run_state.executor().node(), ground.objects_of_node());
        let plane = ground.plane(&link, &node, &objects);
        run_state.note(format_args!(
            "{} {:?} starts, clock off by {} ms",
            link.author(),
            self.role,
            link.clock().offset_ns() / 1_000_000
        ));
        let mut life = Life { link, node, plane, objects, worker: None };
        self.take_role(ground, adapters, &mut life);
        self.life = Some(life);
    }

    fn take_role(&self, ground: &Ground, adapters: &[Arc<dyn Adapter>], life: &mut Life) {
        let (plane, universe, worker) = (life.plane.clone(), self.universe, self.worker_id());
        let shell = ShellConfig { bootstrap: true, ..ShellConfig::new(universe, worker) };
        match self.role {
            Role::Worlds => {
                let config = worker_config(&ground.run_state, universe, worker);
                let running = WorldWorker::start(plane.clone(), config, Calls::default(), Arc::new(Metrics::default()));
                life.worker = Some(running.clone());
                ground.doors.open(self.number, universe, running.clone());
                let commands = WorkerCommands { plane: plane.clone(), worker: running };
                Shell::launch(plane, shell, commands);
            }
            Role::Orchestrator => {
                let config = OrchestratorConfig { interval_ns: 700_000_000, ..OrchestratorConfig::new(universe) };
                Shell::launch(plane.clone(), shell, Orchestrator::new(plane, config, Arc::new(Metrics::default())));
            }
            Role::Adapters => {
                let config = AdapterWorkerConfig {
                    claim_ttl: Duration::from_millis(CLAIM_TTL_MS),
                    calls_max: if ground.run_state.faults().has(Fault::TinyLimits) { 1 } else { 8 },
                    is_alone: true, // of its node there is one life at a time
                    ..AdapterWorkerConfig::default()
                };
                let (engine, blobs, clock) = (plane.engine.clone(), plane.blobs.clone(), plane.clock.clone());
                // Names of messages may go at once: that none is delivered twice must not rest on time.
                let mut reach = Reach::new(plane.clone()).with_dedupe_window_ns(0);
                let entropy = plane.entropy.clone();
                let mut serving = AdapterWorker::new(engine, blobs, clock, entropy, universe, worker, config);
                if ground.run_state.below(2) > 0 {
                    let local: Arc<dyn LocalWorlds> = Arc::new(ground.doors.clone());
                    (serving, reach) = (serving.with_local_worlds(local.clone()), reach.with_local_worlds(local));
                }
                let (fabric, calls) = (FabricAdapter::over(reach.clone()), WorldCallAdapter::over(reach));
                let serving = serving.serve(Arc::new(fabric)).serve(Arc::new(calls));
                let serving = adapters.iter().fold(serving, |it, adapter| it.serve(adapter.clone()));
                Shell::launch(plane, shell, serving);
            }
            Role::Timers => {
                let batch = if ground.run_state.faults().has(Fault::TinyLimits) { 1 } else { 16 };
                let config = TimerWorkerConfig { batch, ..TimerWorkerConfig::default() };
                life.node.spawn(Box::pin(expire_names(ground.run_state.clone(), plane.clone(), universe)));
                let firing = TimerWorker::new(plane.engine.clone(), plane.clock.clone(), universe, config);
                Shell::launch(plane, shell, firing);
            }
            Role::Sweeper => {
                // Slow enough that a crash finds it in the middle of a walk.
                let sweep = SweepConfig {
                    grace: GRACE_MIN,
                    keys_per_second_max: 200,
                    removals_per_second_max: 100,
                    ttl: Duration::from_secs(30),
                };
                let config = SweeperConfig { universe, worker, interval: None, sweep };
                Shell::launch(plane.clone(), shell, Sweeper::new(plane, config, Arc::new(Metrics::default())));
            }
            Role::Watcher => {
                let config = WatcherConfig { interval: Duration::from_millis(300), ..WatcherConfig::new(universe) };
                let ops = Ops::new(plane.clone(), universe, Calls::default());
                Shell::launch(plane.clone(), shell, Watcher::new(plane, ops, config, Arc::new(Metrics::default())));
            }
            // Their tasks come from who started them.
            Role::Exporter | Role::Client => {}
        }
    }

    /// Drops everything that it was doing.
    pub(crate) fn crash(&mut self, run_state: &RunState) {
        let Some(life) = self.life.take() else { return };
        run_state.note(format_args!("{} crashes", life.link.author()));
        run_state.count(|tally| tally.crashes += 1);
        life.link.set_crashed();
        life.node.crash();
        // Its memory is gone: what was handed to it waits for nobody any more.
        if let Some(worker) = life.worker {
            worker.stop();
        }
    }
}

/// How wrong a clock is: by less than a lease, or by several.
pub(crate) fn offset_ns(run_state: &RunState) -> i64 {
    let ms = if run_state.below(2) == 0 { run_state.below(500) } else { run_state.below(8_000) };
    let ns = i64::try_from(ms).unwrap_or(0) * 1_000_000;
    if run_state.below(2) == 0 { ns } else { -ns }
}

fn worker_config(run_state: &RunState, universe: UniverseId, worker: WorkerId) -> WorkerConfig {
    let tiny = run_state.faults().has(Fault::TinyLimits);
    let (items_max, effects_max) = if tiny { (run_state.between(1, 4), 1) } else { (16, 64) };
    let items_max = usize::try_from(items_max).unwrap_or(1);
    let worlds_max = if run_state.faults().has(Fault::LittleRoom) { 1 } else { 10_000 };
    WorkerConfig {
        worlds_max,
        takes_unassigned: !run_state.faults().has(Fault::Moves),
        runners: 2,
        cycle: CycleBudget { items_max, effects_max, wall_ms_max: 20, ..CycleBudget::default() },
        snapshots: SnapshotPolicy { records: run_state.between(4, 24), ..SnapshotPolicy::default() },
        lease_ttl_ns: LEASE_TTL_MS * 1_000_000,
        renew_every_ns: LEASE_TTL_MS * 250_000,
        idle_release_ns: LEASE_TTL_MS * 1_000_000,
        release_tail_records: 6,
        inbox_grace_ns: 3_000_000_000,
        resident_bytes_max: if tiny { 64 * 1_024 } else { 1 << 20 },
        retry_ns: 50_000_000,
        rescan_ns: 1_000_000_000,
        ..WorkerConfig::new(universe, worker)
    }
}

/// Removes names while faults continue, by a clock that is ahead: for what expires with its bucket, every attempt at an effect is as late
/// as if its adapter had been away for hours. Names of clients stay: their window is longer than that.
async fn expire_names(run_state: RunState, plane: SimPlane, universe: UniverseId) {
    loop {
        plane.clock.sleep(Duration::from_millis(run_state.between(100, 900))).await;
        let step = ExpireDedupe { universe, now_ns: plane.now_ns().saturating_add(EXPIRY_AHEAD_NS) };
        if let Err(error) = plane.run(&step).await {
            run_state.note(format_args!("names do not expire: {error}"));
        }
    }
}

/// Two buckets of names.
const EXPIRY_AHEAD_NS: u64 = 2 * dedupe_bucket::BUCKET_NS;
