//! World workers: fairness, fail-over, hand-over, idle worlds, callers, and two workers that fight.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod assignments;
mod hand_over;
mod ready_queue;
mod residency;
mod serving;

use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_model::WorkerId;
use mundi_runtime::{
    calls::Calls,
    metrics::Metrics,
    testing::{Node, Rig, TestPlane, cell, script_event, taken},
    worker::{WorkerConfig, WorldWorker},
    world::WorldHost,
};
use mundi_store::{
    keyspace::{Shard, lease, ready},
    testing::world_id,
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

struct Running {
    node: Node,
    worker: WorldWorker<TestPlane>,
    calls: Calls,
}

fn start_with(rig: &Rig, n: u64, change: impl FnOnce(&mut WorkerConfig)) -> Running {
    let node = rig.executor.node();
    let mut config = WorkerConfig::new(rig.universe, id(n));
    change(&mut config);
    let calls = Calls::default();
    let worker = WorldWorker::start(rig.on(&node), config, calls.clone(), Arc::new(Metrics::default()));
    Running { node, worker, calls }
}

fn start(rig: &Rig, n: u64) -> Running {
    start_with(rig, n, |_| {})
}

fn rig_with(seed: u64, worlds: u64) -> Rig {
    let rig = Rig::new(seed);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..worlds {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    rig
}

fn send(rig: &Rig, world: u64, scripts: u64) {
    let sending = rig.clone();
    let inputs = (0..scripts).map(|_| script_event("add n")).collect();
    rig.executor.block_on(async move { sending.send(world_id(world), inputs).await.unwrap() });
}

/// The number of events that a world has taken, whoever holds it: replayed from its journal.
fn taken_of(rig: &Rig, world: u64) -> u64 {
    let looking = rig.clone();
    let held = rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        tx.get(lease::key(looking.universe, world_id(world)).as_bytes()).await.unwrap()
    });
    assert!(held.is_some());
    taken_of_unleased(rig, world)
}

/// The same for a world that perhaps nobody ever held.
fn taken_of_unleased(rig: &Rig, world: u64) -> u64 {
    let looking = rig.clone();
    rig.executor.block_on(async move {
        let world = world_id(world);
        let epoch = mundi_model::Epoch::INITIAL;
        let fence = mundi_store::Fence { universe: looking.universe, world, epoch };
        let mut host = WorldHost::restore(looking.plane.clone(), fence).await.unwrap();
        let n = cell(&mut host, "n").await.unwrap().try_into().map_or(0, u64::from_be_bytes);
        assert_eq!(taken(&mut host).await.unwrap(), n);
        n
    })
}

fn hints(rig: &Rig) -> usize {
    let looking = rig.clone();
    rig.executor.block_on(async move {
        let mut found = 0;
        for shard in Shard::all() {
            let mut tx = looking.plane.engine.begin().await.unwrap();
            let read = RangeRead::prefix(ready::prefix(looking.universe, shard).as_bytes(), 1_000);
            found += tx.range(read).await.unwrap().items.len();
        }
        found
    })
}
