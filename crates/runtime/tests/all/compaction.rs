//! Old records leave the engine while their world continues.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{Height, WorkerId};
use mundi_runtime::{
    Services,
    calls::Calls,
    metrics::{Metric, Metrics},
    testing::{Rig, script_event},
    worker::{SegmentPolicy, WorkerConfig, WorldWorker},
    world::SnapshotPolicy,
};
use mundi_store::{
    journal::History,
    objects::Objects,
    protocol::ExportPolicy,
    segments::SegmentStore,
    testing::{Fault, FaultyObjects, HeapBlobs, Probe, world_id},
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);

type SegmentPlane = Services<Probe<Memory>, HeapBlobs, SegmentStore<Probe<Memory>>>;

struct Bench {
    rig: Rig,
    objects: FaultyObjects,
    plane: SegmentPlane,
    worker: WorldWorker<SegmentPlane>,
}

/// One world, a worker with one runner, and an object store that takes a second for each request.
fn bench() -> Bench {
    let rig = Rig::new(7);
    let creating = rig.clone();
    rig.executor.block_on(async move { creating.create(world_id(0)).await.unwrap() });
    let objects = FaultyObjects::in_memory().with_clock(Arc::new(rig.executor.clone()));
    (0..1_000).for_each(|request| objects.script(request, Fault::Slow(SECOND)));
    let Services { engine, blobs, clock, entropy, registry, retry, .. } = rig.plane.clone();
    let segments = SegmentStore::new(engine.clone(), Objects::new(Arc::new(objects.clone())));
    let spawner = Arc::new(rig.executor.node());
    let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
    let config = WorkerConfig {
        runners: 1,
        snapshots: SnapshotPolicy { records: 20, ..SnapshotPolicy::default() },
        segments: SegmentPolicy {
            records: ExportPolicy { margin: 0, records_min: 10, ..ExportPolicy::DEFAULT },
            ..SegmentPolicy::default()
        },
        ..WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap())
    };
    let worker = WorldWorker::start(plane.clone(), config, Calls::default(), Arc::new(Metrics::default()));
    Bench { rig, objects, plane, worker }
}

impl Bench {
    fn send(&self, events: usize) {
        let (sending, inputs) = (self.rig.clone(), (0..events).map(|_| script_event("add n")).collect());
        self.rig.executor.block_on(async move { sending.send(world_id(0), inputs).await.unwrap() });
    }

    fn count(&self, metric: Metric) -> u64 {
        self.worker.metrics().get(metric)
    }
}

#[test]
fn a_world_takes_turns_while_its_records_go_to_a_slow_object_store() {
    let bench = bench();
    bench.send(40);
    while bench.objects.operations() == 0 {
        assert!(bench.rig.executor.step(), "an export begins");
    }
    // The object is on its way, and stays so for a second.
    let turns = bench.count(Metric::Turns);
    for sent in 1..=20 {
        bench.send(1);
        bench.rig.executor.run_for(TICK);
        assert_eq!(bench.count(Metric::Turns), turns + sent, "each event has had its turn");
    }
    assert_eq!(bench.count(Metric::SegmentsExported), 0, "the first object is not even written");
    bench.rig.executor.run_for(20 * SECOND);
    assert!(bench.count(Metric::SegmentsExported) >= 2, "and what was exported meanwhile is whole");
    assert_eq!(bench.count(Metric::WorldFailures), 0);
    let (plane, universe) = (bench.plane.clone(), bench.rig.universe);
    let records = bench.rig.executor.block_on(async move {
        let history = History::open(&plane.engine, plane.segments.clone(), universe, world_id(0), Height::GENESIS);
        history.await.unwrap().collect().await.unwrap()
    });
    assert!(records.iter().zip(0..).all(|(record, height)| record.height == Height::new(height)));
    assert!(records.len() > 60);
}

#[test]
fn an_export_that_fails_is_tried_again_with_the_next_snapshot_and_stops_nothing() {
    let bench = bench();
    bench.objects.behave();
    bench.objects.script(0, Fault::WriteRefused);
    bench.send(40);
    bench.rig.executor.run_for(SECOND);
    assert_eq!((bench.count(Metric::SegmentsExported), bench.count(Metric::WorldFailures)), (0, 0));
    bench.send(40);
    bench.rig.executor.run_for(SECOND);
    assert!(bench.count(Metric::SegmentsExported) >= 1);
}
