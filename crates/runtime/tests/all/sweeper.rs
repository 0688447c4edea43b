//! When sweeps begin, and what the metrics say of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::Memory;
use mundi_model::{Hash, WorkerId};
use mundi_runtime::{
    Plane, Services,
    metrics::{Metric, Metrics},
    shell::{Shell, ShellConfig, Stop},
    sweeper::{SweepPlane, Sweeper, SweeperConfig},
    testing::Rig,
};
use mundi_store::{
    blobs::{Cas, CasConfig, NO_REFS},
    objects::Objects,
    protocol::{ReadSweep, RequestSweep},
    reachability::{GRACE_MIN, SweepConfig},
    segments::SegmentStore,
    testing::{FaultyObjects, Probe},
};
use std::{sync::Arc, time::Duration};

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    rig: Rig,
    plane: SweepPlane<Probe<Memory>>,
    metrics: Arc<Metrics>,
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::new(1);
        let Services { engine, clock, entropy, registry, spawner, retry, .. } = rig.plane.clone();
        let objects = Objects::new(Arc::new(FaultyObjects::in_memory()));
        let blobs = Cas::new(engine.clone(), objects.clone(), clock.clone(), entropy.clone(), CasConfig::default());
        let segments = SegmentStore::new(engine.clone(), objects);
        let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
        Self { rig, plane, metrics: Arc::default() }
    }

    fn sweeper(&self, interval: Option<Duration>) -> Sweeper<Probe<Memory>> {
        let sweep = SweepConfig { grace: GRACE_MIN, ..SweepConfig::default() };
        let (universe, worker) = (self.rig.universe, WorkerId::new(1).unwrap());
        Sweeper::new(self.plane.clone(), SweeperConfig { universe, worker, interval, sweep }, self.metrics.clone())
    }

    fn start(&self, interval: Option<Duration>) -> Stop {
        let config = ShellConfig { bootstrap: true, ..ShellConfig::new(self.rig.universe, WorkerId::new(1).unwrap()) };
        Shell::launch(self.plane.clone(), config, self.sweeper(interval))
    }

    /// How many sweeps there were this much later.
    fn sweeps_after(&self, duration: Duration) -> u64 {
        self.rig.executor.run_for(duration);
        self.metrics.get(Metric::Sweeps)
    }

    fn run(&self) {
        let sweeper = self.sweeper(None);
        self.rig.executor.block_on(async move { sweeper.run().await.unwrap() });
    }

    fn request(&self, dry_run: bool) {
        let (plane, universe) = (self.plane.clone(), self.rig.universe);
        let request = RequestSweep { universe, dry_run, now_ns: plane.now_ns() };
        self.rig.executor.block_on(async move { plane.run(&request).await.unwrap() });
    }
}

/// Nobody asks for these: an installation that no operator looks at must not grow for ever.
#[test]
fn a_sweep_begins_by_itself_an_interval_after_the_last_one() {
    let bench = Bench::new();
    let _running = bench.start(Some(HOUR));
    assert_eq!(bench.sweeps_after(HOUR - SECOND), 0, "too early");
    assert_eq!(bench.sweeps_after(2 * SECOND), 1);
    assert_eq!(bench.sweeps_after(HOUR - 10 * SECOND), 1, "from its end");
    assert_eq!(bench.sweeps_after(20 * SECOND), 2);
    let (plane, universe) = (bench.plane.clone(), bench.rig.universe);
    let state = bench.rig.executor.block_on(async move { plane.run(&ReadSweep { universe }).await.unwrap().output });
    assert!(state.runs == 2 && state.running.is_none() && state.last.is_some_and(|last| !last.dry_run));
}

#[test]
fn without_an_interval_a_sweep_begins_only_when_it_is_asked_for() {
    let bench = Bench::new();
    let _running = bench.start(None);
    assert_eq!(bench.sweeps_after(48 * HOUR), 0);
    bench.request(false);
    assert_eq!(bench.sweeps_after(SECOND), 1);
}

#[test]
fn a_dry_run_lowers_no_metric_by_what_it_did_not_remove() {
    let bench = Bench::new();
    let (cas, universe) = (bench.plane.blobs.clone(), bench.rig.universe);
    let put = async move { cas.put(universe, Bytes::from(vec![7; 100]), NO_REFS).await.unwrap() };
    let _hash: Hash = bench.rig.executor.block_on(put);
    let after = |sweep: &dyn Fn()| {
        bench.rig.executor.run_for(GRACE_MIN + SECOND);
        sweep();
        let get = |metric| bench.metrics.get(metric);
        (get(Metric::UnreachableBytes), get(Metric::SweepBytesRemoved))
    };
    assert_eq!(after(&|| bench.run()), (100, 0), "condemned");
    let dry = || {
        bench.request(true);
        bench.run();
    };
    assert_eq!(after(&dry), (100, 0), "it would go, and is there");
    assert_eq!(after(&|| bench.run()), (0, 100));
}
