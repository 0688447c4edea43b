//! The shared state of one run: time, random numbers, and records.

use crate::{
    coverage::Coverage,
    faults::{Fault, Faults},
    log::Commit,
    protocol::Protocol,
    trace::Trace,
};
use mundi_runtime::testing::Executor;
use mundi_store::{Clock, testing::Rng};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The state of one run. Clones are the same one.
#[derive(Clone)]
pub(crate) struct RunState(Arc<Inner>);

struct Inner {
    executor: Executor,
    faults: Faults,
    /// Faults strike only between setting up and healing.
    striking: AtomicBool,
    ticks: AtomicU64,
    /// When the nodes were stopped; 0 before. What passes afterwards is nobody's time.
    played_ns: AtomicU64,
    rng: Mutex<Rng>,
    trace: Mutex<Trace>,
    commits: Mutex<Vec<Commit>>,
    coverage: Mutex<Coverage>,
    tally: Mutex<Tally>,
    ambush: Mutex<Option<Ambush>>,
}

/// Strikes a node, by its number, in the middle of what it does.
pub(crate) type Ambush = Arc<dyn Fn(u32, Fault) + Send + Sync>;

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub commits: u64,
    pub conflicts: u64,
    /// Commits whose author did not hear what became of them.
    pub unknown: u64,
    pub crashes: u64,
    pub pauses: u64,
    pub partitions: u64,
    pub forks: u64,
    pub upgrades: u64,
    pub calls: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        let Self { commits, conflicts, unknown, crashes, pauses, partitions, forks, upgrades, calls } = other;
        self.commits += commits;
        self.conflicts += conflicts;
        self.unknown += unknown;
        self.crashes += crashes;
        self.pauses += pauses;
        self.partitions += partitions;
        self.forks += forks;
        self.upgrades += upgrades;
        self.calls += calls;
    }
}

impl RunState {
    pub(crate) fn new(seed: u64, faults: Faults, keep_trace: bool) -> Self {
        let executor = Executor::new(seed);
        // Late enough that a clock may be behind.
        executor.run_for(Duration::from_secs(1_000));
        Self(Arc::new(Inner {
            executor,
            faults,
            striking: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            played_ns: AtomicU64::new(0),
            rng: Mutex::new(Rng::new(seed ^ 0x0dd5)),
            trace: Mutex::new(Trace::new(keep_trace)),
            commits: Mutex::default(),
            coverage: Mutex::default(),
            tally: Mutex::default(),
            ambush: Mutex::default(),
        }))
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// The play is over.
    pub(crate) fn set_played(&self) {
        self.0.played_ns.store(self.now_ns(), Ordering::SeqCst);
    }

    /// How late it was then, or is now if it continues.
    pub(crate) fn played_ns(&self) -> u64 {
        match self.0.played_ns.load(Ordering::SeqCst) {
            0 => self.now_ns(),
            played_ns => played_ns,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.0.executor.now_ns()
    }

    pub(crate) async fn sleep_ms(&self, ms: u64) {
        self.0.executor.sleep(Duration::from_millis(ms)).await;
    }

    /// A number that rises with each call: tells what came before what within one instant.
    pub(crate) fn tick(&self) -> u64 {
        self.0.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Whether this run has the fault, and faults strike at this time.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.is_striking() && self.0.faults.has(fault)
    }

    pub(crate) fn set_striking(&self, striking: bool) {
        self.0.striking.store(striking, Ordering::SeqCst);
    }

    pub(crate) fn is_striking(&self) -> bool {
        self.0.striking.load(Ordering::SeqCst)
    }

    /// Whether a fault strikes now, so often in a thousand.
    pub(crate) fn strikes(&self, fault: Fault, in_thousand: u64) -> bool {
        self.has(fault) && self.below(1_000) < in_thousand
    }

    /// The driver that injects faults into nodes, if any.
    pub(crate) fn set_ambush(&self, ambush: Option<Ambush>) {
        *self.0.ambush.lock() = ambush;
    }

    /// Perhaps strikes a node right here: it notices at its next await.
    pub(crate) fn ambush(&self, node: u32) {
        for fault in [Fault::Crashes, Fault::Pauses, Fault::Partitions] {
            if self.strikes(fault, 4) {
                let ambush = self.0.ambush.lock().clone();
                ambush.iter().for_each(|strike| strike(node, fault));
            }
        }
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.0.rng.lock().below(end)
    }

    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let now_ns = self.now_ns();
        self.0.trace.lock().note(now_ns, what);
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.0.trace.lock().hash()
    }

    /// The lines of the trace, if they were kept.
    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::replace(&mut *self.0.trace.lock(), Trace::new(false)).into_lines()
    }

    pub(crate) fn committed(&self, commit: Commit) {
        self.0.commits.lock().push(commit);
    }

    pub(crate) fn commits_so_far(&self) -> usize {
        self.0.commits.lock().len()
    }

    pub(crate) fn commits(&self) -> Vec<Commit> {
        self.0.commits.lock().clone()
    }

    pub(crate) fn met(&self, fault: Fault, protocol: Protocol) {
        self.0.coverage.lock().met(fault, protocol);
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.0.coverage.lock().clone()
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut self.0.tally.lock());
    }

    pub(crate) fn tally(&self) -> Tally {
        *self.0.tally.lock()
    }
}
