//! The world worker: many worlds on a few runners.
//!
//! The ready watcher finds worlds that have work and tells the scheduler; runners take worlds from it, acquire what they do
//! not hold, restore what is not in memory, and run a cycle. The lease keeper renews leases, and releases what is idle or too much.
//! Compactors move old records and items out of the engine. One task returns items that no turn takes in time. Nothing polls: each of
//! them waits for a watch, a signal or its next deadline.

mod compaction;
mod config;
mod item_timeout;
mod lease_keeper;
mod local;
mod pace;
mod probation;
mod ready_watcher;
mod runner;
mod scheduler;

pub use config::{SegmentPolicy, WorkerConfig};
pub use pace::Pace;
pub use probation::FirstCycles;
pub use scheduler::Wish;

use crate::{
    Plane, RuntimeError,
    calls::Calls,
    effects::{recording::KeptRecordings, slots::RegisteredSlots},
    metrics::{Metric, Metrics},
    shell::{Role, Shell},
    signal::Signal,
    world::WorldHost,
};
use compaction::Compactions;
use futures_util::future::select;
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{UniverseId, WorldId};
use parking_lot::Mutex;
use scheduler::Scheduler;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// A running worker. Clones are handles to the same one; dropping them does not stop it.
pub struct WorldWorker<P: Plane>(Arc<Shared<P>>);

struct Shared<P: Plane> {
    plane: P,
    config: WorkerConfig,
    /// Never locked across an await.
    scheduler: Mutex<Scheduler<Box<WorldHost<P>>>>,
    phase: Mutex<Phase>,
    /// The last heartbeat was written: nobody counts on this worker any more.
    said_goodbye: AtomicBool,
    /// Where other processes reach this one, if they do.
    address: Mutex<Option<String>>,
    /// Of the process, for people.
    roles: OnceLock<Vec<String>>,
    /// A world waits for a runner.
    work: Signal,
    /// An item waits for a turn, after a while in which none did.
    item_waits: Signal,
    /// The phase changed, or what is due later, or a world is gone.
    signal: Signal,
    calls: Calls,
    slots: RegisteredSlots,
    recordings: KeptRecordings<P>,
    /// Worlds whose old items and records are to leave the engine.
    compactions: Compactions,
    /// How many runners have a world.
    runners_busy: AtomicUsize,
    /// A world was refused because too many have work: the next heartbeat says so at once.
    has_refused: AtomicBool,
    /// Until when the object store is taken for one that does not have what it should.
    objects_absent_until_ns: AtomicU64,
    /// When it started: distinguishes this run of the worker from others.
    life_ns: u64,
    first_cycles: Arc<FirstCycles>,
    /// The throttle that the universe waits for before its cycles, if there is one.
    pace: OnceLock<Arc<dyn Pace>>,
    metrics: Arc<Metrics>,
    /// Worlds whose last cycle left items behind, with how long the oldest item of that cycle had waited.
    behind: Mutex<BTreeMap<WorldId, u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// None of its tasks runs yet.
    Starting,
    Running,
    /// Accepts no new worlds and releases those that it has.
    Draining,
    Over,
}

impl<P: Plane> Clone for WorldWorker<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Plane> WorldWorker<P> {
    /// A worker that runs nothing before its [shell](crate::shell) has booted. `first_cycles` is one for all workers of a process: what ends
    /// one of them ends all.
    pub fn new(
        plane: P,
        config: WorkerConfig,
        calls: Calls,
        metrics: Arc<Metrics>,
        first_cycles: Arc<FirstCycles>,
    ) -> Self {
        let life_ns = plane.now_ns();
        Self(Arc::new(Shared {
            plane,
            config,
            scheduler: Mutex::default(),
            phase: Mutex::new(Phase::Starting),
            said_goodbye: AtomicBool::new(false),
            address: Mutex::default(),
            roles: OnceLock::new(),
            work: Signal::default(),
            item_waits: Signal::default(),
            signal: Signal::default(),
            calls,
            slots: RegisteredSlots::default(),
            recordings: KeptRecordings::default(),
            compactions: Compactions::default(),
            runners_busy: AtomicUsize::new(0),
            has_refused: AtomicBool::new(false),
            objects_absent_until_ns: AtomicU64::new(0),
            life_ns,
            first_cycles,
            pace: OnceLock::new(),
            metrics,
            behind: Mutex::default(),
        }))
    }

    /// A worker without a shell, for a universe whose version is known: its tasks run at once.
    pub fn start(plane: P, config: WorkerConfig, calls: Calls, metrics: Arc<Metrics>) -> Self {
        let worker = Self::new(plane, config, calls, metrics, Arc::default());
        worker.begin();
        worker
    }

    /// Starts the worker's tasks, unless it was stopped before.
    fn begin(&self) {
        let shared = &self.0;
        if shared.advance(Phase::Running) != Phase::Starting {
            return;
        }
        let spawner = shared.plane.spawner();
        spawner.spawn(Box::pin(ready_watcher::run(shared.clone())));
        for _ in 0..shared.config.runners.max(1) {
            spawner.spawn(Box::pin(runner::run(shared.clone())));
        }
        for _ in 0..compaction::COMPACTORS {
            spawner.spawn(Box::pin(compaction::run(shared.clone())));
        }
        spawner.spawn(Box::pin(lease_keeper::run(shared.clone())));
        spawner.spawn(Box::pin(item_timeout::run(shared.clone())));
    }

    /// From now on cycles begin when this lets them. Told once; a second one is ignored.
    pub fn keep_pace(&self, pace: Arc<dyn Pace>) {
        let _told_before = self.0.pace.set(pace);
    }

    /// The world was assigned to this worker, or has work.
    pub fn wake(&self, world: WorldId) {
        let now_ns = self.0.plane.now_ns();
        if self.0.phase() <= Phase::Running && self.0.scheduler.lock().insist(world, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// The manifest of a world that is in memory, unless that may be changing right now.
    pub(crate) fn manifest(&self, world: WorldId) -> Option<Arc<CompiledManifest>> {
        let scheduler = (self.0.phase() == Phase::Running).then(|| self.0.scheduler.lock())?;
        scheduler.at_rest(world).map(|host| host.manifest().clone())
    }

    pub(crate) fn universe(&self) -> UniverseId {
        self.0.config.universe
    }

    /// Whether it holds the world's lease, as far as it knows.
    pub fn holds(&self, world: WorldId) -> bool {
        self.0.phase() == Phase::Running && self.0.scheduler.lock().holds(world)
    }

    /// How long items of a world that it holds had waited when its last cycle took them, if that left some behind; else nothing.
    pub fn inbox_age_ns(&self, world: WorldId) -> u64 {
        self.0.behind.lock().get(&world).copied().unwrap_or(0)
    }

    /// Lets other processes know where this one is reached.
    pub fn set_address(&self, address: String) {
        *self.0.address.lock() = Some(address);
        self.0.signal.notify();
    }

    /// Lets people know which roles the process has.
    pub fn set_roles(&self, roles: Vec<String>) {
        let _kept = self.0.roles.set(roles);
    }

    /// The world's next cycle takes a snapshot or exports segments.
    pub fn keep_up(&self, world: WorldId, wish: Wish) {
        let now_ns = self.0.plane.now_ns();
        if self.0.phase() <= Phase::Running && self.0.scheduler.lock().keep_up(world, wish, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// Gives a world back: it was revoked. Its state is in the journal already.
    pub fn revoke(&self, world: WorldId) {
        self.0.scheduler.lock().release(world, self.0.plane.now_ns());
        self.0.work.notify_one();
    }

    /// The worlds whose leases it holds.
    pub fn worlds(&self) -> Vec<WorldId> {
        self.0.scheduler.lock().worlds()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Takes nothing new, snapshots and releases everything, and ends. Completes when all leases are released and the worker is
    /// no longer on the list of live workers. A worker that is stopped, before or meanwhile, releases nothing more.
    pub async fn drain(&self) {
        let shared = &self.0;
        let has_tasks = shared.advance(Phase::Draining) != Phase::Starting;
        shared.scheduler.lock().close(shared.plane.now_ns());
        shared.signal.notify();
        shared.work.notify();
        shared.wait_until(|shared| shared.phase() == Phase::Over || shared.scheduler.lock().is_empty()).await;
        shared.end();
        if has_tasks {
            self.ended().await;
        }
    }

    /// Completes when the worker is no longer on the list of live workers.
    async fn ended(&self) {
        self.0.wait_until(|shared| shared.said_goodbye.load(Ordering::Acquire)).await;
    }

    /// Stops at the next await of each task, without releasing anything: leases expire by themselves.
    pub fn stop(&self) {
        self.0.end();
    }
}

/// In its shell: its tasks begin once the version of the universe is known, and it drains or stops as the shell is told to. A command from its
/// mailbox ends it, too.
impl<P: Plane> Role<P> for WorldWorker<P> {
    const NAME: &'static str = "world";

    async fn run(shell: &Shell<P, Self>) -> Result<(), RuntimeError> {
        let worker = shell.role();
        worker.begin();
        select(pin!(worker.ended()), pin!(shell.asked_to_end())).await;
        select(pin!(shell.asked_to_stop()), pin!(worker.drain())).await;
        worker.stop();
        worker.ended().await;
        Ok(())
    }
}

impl<P: Plane> Shared<P> {
    fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    async fn wait_until(&self, holds: impl Fn(&Self) -> bool + Send) {
        loop {
            let seen = self.signal.version();
            if holds(self) {
                return;
            }
            self.signal.changed(seen).await;
        }
    }

    /// Phases only move forward. Says which one it was before.
    fn advance(&self, to: Phase) -> Phase {
        let mut phase = self.phase.lock();
        let before = *phase;
        *phase = before.max(to);
        before
    }

    fn end(&self) {
        self.advance(Phase::Over);
        self.scheduler.lock().return_items();
        self.signal.notify();
        self.work.notify();
        self.item_waits.notify();
        self.compactions.wake();
    }

    /// Bounded by the worlds that it holds.
    fn note_behind(&self, world: WorldId, age_ns: u64) {
        let mut behind = self.behind.lock();
        match age_ns {
            0 => drop(behind.remove(&world)),
            _ => drop(behind.insert(world, age_ns)),
        }
    }

    fn note_residents(&self) {
        let residents = self.scheduler.lock().residents();
        self.metrics.set(Metric::ResidentWorlds, residents as u64);
        self.metrics.raise(Metric::ResidentWorldsMax, residents as u64);
    }
}
