//! The world worker: many worlds on a few lanes.
//!
//! A scout watches the ready hints and puts worlds into the queue of a table; lanes take them out, acquire what they do
//! not hold, restore what is not in memory, and run a cycle; the keeper renews leases, and gives back what is idle or
//! too much; compactors move what is old out of the engine beside all that; patience gives back what was handed to a world that has no time for it. Nothing polls: each of them waits for a
//! watch, a signal or its next deadline.

mod compaction;
mod config;
mod keeper;
mod lane;
mod pace;
mod patience;
mod probation;
mod scout;
mod table;

pub use config::{SegmentPolicy, WorkerConfig};
pub use pace::Pace;
pub use probation::FirstCycles;
pub use table::Wish;

use crate::{
    Plane,
    calls::Calls,
    direct::{Sender, Taken, Wait},
    hands::{Employed, Hands},
    host::WorldHost,
    metrics::{Metric, Metrics},
    signal::Signal,
};
use compaction::Compactions;
use mundi_engine::CommitError;
use mundi_kernel::manifest::CompiledManifest;
use mundi_model::{UniverseId, WorldId, record::InboxItem};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};
use table::{Handed, Table};

/// A running worker. Clones are handles to the same one; dropping them does not stop it.
pub struct WorldWorker<P: Plane>(Arc<Shared<P>>);

struct Shared<P: Plane> {
    plane: P,
    config: WorkerConfig,
    /// Never locked across an await.
    table: Mutex<Table<Box<WorldHost<P>>>>,
    phase: Mutex<Phase>,
    /// The last heartbeat was written: nobody counts on this worker any more.
    said_goodbye: AtomicBool,
    /// Where other processes reach this one, if they do.
    address: Mutex<Option<String>>,
    /// A world waits for a lane.
    work: Signal,
    /// Something was handed to a world, after a while in which nothing was.
    handed: Signal,
    /// The phase changed, or what is due later, or a world is gone.
    signal: Signal,
    calls: Calls,
    hands: Employed,
    /// Worlds whose old items and records are to leave the engine.
    compactions: Compactions,
    /// How many lanes have a world.
    lanes_busy: AtomicUsize,
    /// A world was refused because too many have something to do: the next heartbeat says so at once.
    has_refused: AtomicBool,
    /// Until when the object store is taken for one that does not have what it should.
    objects_absent_until_ns: AtomicU64,
    /// When it started: what tells this life of the worker from others.
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
    /// Takes nothing new and gives back what it has.
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
            table: Mutex::default(),
            phase: Mutex::new(Phase::Running),
            said_goodbye: AtomicBool::new(false),
            address: Mutex::default(),
            work: Signal::default(),
            handed: Signal::default(),
            signal: Signal::default(),
            calls,
            hands: Employed::default(),
            compactions: Compactions::default(),
            lanes_busy: AtomicUsize::new(0),
            has_refused: AtomicBool::new(false),
            objects_absent_until_ns: AtomicU64::new(0),
            life_ns,
            first_cycles,
            pace: OnceLock::new(),
            metrics,
            behind: Mutex::default(),
        });
        let spawner = shared.plane.spawner();
        spawner.spawn(Box::pin(scout::run(shared.clone())));
        for _ in 0..config.lanes.max(1) {
            spawner.spawn(Box::pin(lane::run(shared.clone())));
        }
        for _ in 0..compaction::COMPACTORS {
            spawner.spawn(Box::pin(compaction::run(shared.clone())));
        }
        spawner.spawn(Box::pin(keeper::run(shared.clone())));
        spawner.spawn(Box::pin(patience::run(shared.clone())));
        Self(shared)
    }

    /// From now on cycles begin when this lets them. Told once; a second one is ignored.
    pub fn keep_pace(&self, pace: Arc<dyn Pace>) {
        let _told_before = self.0.pace.set(pace);
    }

    /// The world was assigned to this worker, or has something to do.
    pub fn wake(&self, world: WorldId) {
        let now_ns = self.0.plane.now_ns();
        if self.0.phase() == Phase::Running && self.0.table.lock().insist(world, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// Something is on its way to a world that is not held here: if it may be, it need not wait for the look at the ready queue.
    pub(crate) fn nudge(&self, world: WorldId) {
        let (now_ns, may_open) = (self.0.plane.now_ns(), self.0.config.takes_unassigned);
        if may_open && self.0.phase() == Phase::Running && self.0.table.lock().wake(world, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// Hands an item to a world that it holds, and waits until it is on record; `None` if no turn takes it. A receipt ends its
    /// effect.
    pub(crate) async fn hand(
        &self,
        world: WorldId,
        item: &Arc<InboxItem>,
        from: Sender,
    ) -> Result<Option<Taken>, CommitError> {
        match self.put_before(|table| table.hand(world, item, from)) {
            Some(wait) => wait.taken().await,
            None => Ok(None),
        }
    }

    /// As [`Self::hand`], also to a world that is not held and may be: it is acquired and restored, and takes the item in its first
    /// turn. One commit for the lease and one for the turn; through the inbox it would be three, and a look at the ready queue.
    pub(crate) async fn hand_or_open(
        &self,
        world: WorldId,
        item: &Arc<InboxItem>,
        from: Sender,
    ) -> Result<Option<Taken>, CommitError> {
        let (now_ns, may_open) = (self.0.plane.now_ns(), self.0.config.takes_unassigned);
        let wait = self.put_before(|table| match may_open {
            true => table.hand_or_open(world, item, from, now_ns),
            false => table.hand(world, item, from),
        });
        match wait {
            Some(wait) => wait.taken().await,
            None => Ok(None),
        }
    }

    /// `None` if the world cannot be had, or cannot take more.
    fn put_before(&self, hand: impl FnOnce(&mut Table<Box<WorldHost<P>>>) -> Option<Handed>) -> Option<Wait> {
        let mut table = self.0.table.lock(); // first of all: who ends the worker clears the table afterwards
        if self.0.phase() != Phase::Running {
            return None;
        }
        let Handed { wait, woken, is_first } = hand(&mut table)?;
        drop(table);
        if woken {
            self.0.work.notify_one();
        }
        if is_first {
            self.0.handed.notify();
        }
        Some(wait)
    }

    /// What a world that it has in memory goes by, unless that may be changing right now.
    pub(crate) fn manifest(&self, world: WorldId) -> Option<Arc<CompiledManifest>> {
        let table = (self.0.phase() == Phase::Running).then(|| self.0.table.lock())?;
        table.at_rest(world).map(|host| host.manifest().clone())
    }

    pub(crate) fn set_hands(&self, hands: Arc<Hands>) {
        *self.0.hands.lock() = Some(hands);
    }

    pub(crate) fn universe(&self) -> UniverseId {
        self.0.config.universe
    }

    /// Whether it holds the world's lease, as far as it knows.
    pub fn holds(&self, world: WorldId) -> bool {
        self.0.phase() == Phase::Running && self.0.table.lock().holds(world)
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
        if self.0.phase() == Phase::Running && self.0.table.lock().keep_up(world, wish, now_ns) {
            self.0.work.notify_one();
        }
    }

    /// Gives a world back: it was revoked. Its state is in the journal already.
    pub fn revoke(&self, world: WorldId) {
        self.0.table.lock().release(world, self.0.plane.now_ns());
        self.0.work.notify_one();
    }

    /// The worlds whose leases it holds.
    pub fn worlds(&self) -> Vec<WorldId> {
        self.0.table.lock().worlds()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Takes nothing new, snapshots and releases everything, and ends. Completes when all is given back and the worker is
    /// no longer among those that live.
    pub async fn drain(&self) {
        let shared = &self.0;
        *shared.phase.lock() = Phase::Draining;
        {
            let mut table = shared.table.lock();
            table.forget_later();
            table.release_all(shared.plane.now_ns());
        }
        shared.signal.notify();
        shared.work.notify();
        shared.wait_until(|shared| shared.table.lock().is_empty()).await;
        shared.end();
        shared.wait_until(|shared| shared.said_goodbye.load(Ordering::Acquire)).await;
    }

    /// Stops at the next await of each task, without giving anything back: leases run out by themselves.
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
        self.table.lock().refuse_direct();
        self.signal.notify();
        self.work.notify();
        self.handed.notify();
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
        let residents = self.table.lock().residents();
        self.metrics.set(Metric::ResidentWorlds, residents as u64);
        self.metrics.raise(Metric::ResidentWorldsMax, residents as u64);
    }
}
