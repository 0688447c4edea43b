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
    Plane,
    calls::Calls,
    effects::{recording::KeptRecordings, slots::RegisteredSlots},
    metrics::{Metric, Metrics},
    signal::Signal,
    world::WorldHost,
};
use compaction::Compactions;
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{UniverseId, WorldId};
use parking_lot::Mutex;
use scheduler::Scheduler;
use std::{
    collections::BTreeMap,
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
    /// What the universe waits for before its cycles, if there is something.
    pace: OnceLock<Arc<dyn Pace>>,
    metrics: Arc<Metrics>,
    /// Worlds whose last cycle left items behind, with how long the oldest item of that cycle had waited.
    behind: Mutex<BTreeMap<WorldId, u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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
    /// Starts the worker's tasks.
    pub fn start(plane: P, config: WorkerConfig, calls: Calls, metrics: Arc<Metrics>) -> Self {
        Self::start_beside(plane, config, calls, metrics, Arc::default())
    }

    /// As [`Self::start`], in a process with other workers: what ends one of them ends all.
    pub fn start_beside(
        plane: P,
        config: WorkerConfig,
        calls: Calls,
        metrics: Arc<Metrics>,
        first_cycles: Arc<FirstCycles>,
    ) -> Self {
        let life_ns = plane.now_ns();
        let shared = Arc::new(Shared {
            plane,
            config,
            scheduler: Mutex::default(),
            phase: Mutex::new(Phase::Running),
            said_goodbye: AtomicBool::new(false),
            address: Mutex::default(),
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
        });
        let spawner = shared.plane.spawner();
        spawner.spawn(Box::pin(ready_watcher::run(shared.clone())));
        for _ in 0..config.runners.max(1) {
            spawner.spawn(Box::pin(runner::run(shared.clone())));
        }
        for _ in 0..compaction::COMPACTORS {
            spawner.spawn(Box::pin(compaction::run(shared.clone())));
        }
        spawner.spawn(Box::pin(lease_keeper::run(shared.clone())));
        spawner.spawn(Box::pin(item_timeout::run(shared.clone())));
        Self(shared)
    }

    /// From now on cycles begin when this lets them. Told once; a second one is ignored.
    pub fn keep_pace(&self, pace: Arc<dyn Pace>) {
        let _told_before = self.0.pace.set(pace);
    }

    /// The world was assigned to this worker, or has work.
    pub fn wake(&self, world: WorldId) {
        let now_ns = self.0.plane.now_ns();
        if self.0.phase() == Phase::Running && self.0.scheduler.lock().insist(world, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// What a world that it has in memory goes by, unless that may be changing right now.
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

    /// The world's next cycle takes a snapshot or exports segments.
    pub fn keep_up(&self, world: WorldId, wish: Wish) {
        let now_ns = self.0.plane.now_ns();
        if self.0.phase() == Phase::Running && self.0.scheduler.lock().keep_up(world, wish, now_ns) {
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
    /// no longer on the list of live workers.
    pub async fn drain(&self) {
        let shared = &self.0;
        *shared.phase.lock() = Phase::Draining;
        {
            let mut scheduler = shared.scheduler.lock();
            scheduler.forget_later();
            scheduler.release_all(shared.plane.now_ns());
        }
        shared.signal.notify();
        shared.work.notify();
        shared.wait_until(|shared| shared.scheduler.lock().is_empty()).await;
        shared.end();
        shared.wait_until(|shared| shared.said_goodbye.load(Ordering::Acquire)).await;
    }

    /// Stops at the next await of each task, without releasing anything: leases expire by themselves.
    pub fn stop(&self) {
        self.0.end();
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

    fn end(&self) {
        *self.phase.lock() = Phase::Over;
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
