//! A world whose turns end the process is put on hold after a few lives of it, and the worlds beside it are not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::Memory;
use mundi_kernel::{
    Registry,
    program::{Cause, Event, Failure, Host, Program, View},
};
use mundi_model::{
    Value, WorkerId, cbor, limits,
    record::{InboxItem, Operator, Origin},
};
use mundi_runtime::{
    Plane, Services,
    calls::Calls,
    control::Ops,
    metrics::{Metric, Metrics},
    testing::{MENDED_VERSION, Node, Rig, Script, TestPlane, mended_manifest, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    Clock,
    blob::Blobs,
    keyspace::world_meta::Hold,
    protocol::NewItem,
    testing::{Probe, Trouble, world_id},
};
use std::{sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
/// Less than a process lives before it opens a world that may have ended others.
const SHORT: Duration = Duration::from_millis(500);
const OTHERS: u64 = 8;

/// The script, in a process that a line `die` ends: nothing of it goes on, and nothing more reaches the engine. A line `# slow` takes so long that
/// whatever ends a young process does so meanwhile.
struct Deadly {
    node: Node,
    engine: Probe<Memory>,
    clock: Arc<dyn Clock>,
    since_ns: u64,
}

impl Program for Deadly {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let is_young = || u128::from(self.clock.now_ns().saturating_sub(self.since_ns)) < SHORT.as_nanos();
        if let Cause::Event { value, .. } = event.cause
            && let Ok(Value::Text(text)) = cbor::decode(value)
            && (text.contains("die") || text.contains("slow") && is_young())
        {
            self.engine.arm(0, Trouble::DieBefore);
            self.node.crash();
        }
        Script.handle(host, event)
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        Script.query(view, name, params)
    }
}

struct Life {
    node: Node,
    worker: WorldWorker<TestPlane>,
}

/// A new life of the same worker, which takes its own leases again at once.
fn live(rig: &Rig) -> Life {
    live_for(rig, MINUTE)
}

fn live_for(rig: &Rig, time: Duration) -> Life {
    rig.plane.engine.revive();
    let node = rig.executor.node();
    let mut registry = Registry::new();
    let (engine, clock) = (rig.plane.engine.clone(), rig.plane.clock.clone());
    let deadly = Deadly { node: node.clone(), engine, since_ns: clock.now_ns(), clock };
    registry.register_native("script", 1, deadly);
    registry.register_native("script", MENDED_VERSION, Script);
    let plane = Services { registry: Arc::new(registry), ..rig.on(&node) };
    let mut config = WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap());
    config.runners = 4; // so that several worlds are in their first cycle when one ends the process
    let worker = WorldWorker::start(plane, config, Calls::default(), Arc::new(Metrics::default()));
    rig.executor.run_for(time);
    Life { node, worker }
}

/// Lives of a worker until one stays; says how many ended.
fn live_on(rig: &Rig) -> (u32, Life) {
    for ended in 0..50 {
        let life = live(rig);
        if life.node.is_running() {
            return (ended, life);
        }
    }
    panic!("the process ends again and again");
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn send(rig: &Rig, world: u64, scripts: &[&str]) {
    let item = |script: &&str| {
        let origin = Origin::new(0);
        NewItem { item: InboxItem { input: script_event(script), origin }, dedupe: None }
    };
    let (sending, items) = (rig.clone(), scripts.iter().map(item).collect());
    rig.executor.block_on(async move { sending.enqueue(world_id(world), items).await.unwrap() });
}

fn hold_of(rig: &Rig, world: u64) -> Option<Hold> {
    let ops = ops(rig);
    rig.executor.block_on(async move { ops.describe_world(world_id(world)).await.unwrap().meta.hold })
}

fn cell(rig: &Rig, world: u64, key: &str) -> u64 {
    let ops = ops(rig);
    let key = cbor::encode(&Value::Text(key.into()));
    let found =
        rig.executor.block_on(async move { ops.world_query(world_id(world), "cell", &key, None).await.unwrap() });
    found.try_into().map_or(0, u64::from_be_bytes)
}

/// Worlds that have all work, and the first of which ends the process at its first item or its second.
fn rig_with_a_deadly_world(seed: u64, first: &[&str]) -> Rig {
    let rig = Rig::new(seed);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..=OTHERS {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    send(&rig, 0, first);
    (1..=OTHERS).for_each(|world| send(&rig, world, &["add n"; 3]));
    rig
}

#[test]
fn a_world_that_ends_processes_is_put_on_hold_and_no_other_is() {
    for seed in 0..20 {
        let rig = rig_with_a_deadly_world(seed, &["die", "add n"]);
        let (ended, life) = live_on(&rig);
        // The first one is not counted: nothing was known against the world, and so nothing was written before its turn.
        assert_eq!(ended, limits::WORLD_DEATHS_MAX + 1, "seed {seed}");
        let hold = hold_of(&rig, 0).expect("on hold");
        assert_eq!((hold.code.as_str(), hold.failures), ("WORLD_ENDS_PROCESS", limits::WORLD_DEATHS_MAX));
        assert!(hold.seq.is_some());
        (1..=OTHERS).for_each(|world| assert_eq!((cell(&rig, world, "n"), hold_of(&rig, world)), (3, None)));
        assert_eq!(life.worker.metrics().get(Metric::WorldsHeld), 1);
    }
}

#[test]
fn what_stands_before_the_deadly_item_is_taken_and_the_hold_names_that_item() {
    let rig = rig_with_a_deadly_world(7, &["add n", "add n", "die", "add n"]);
    live_on(&rig);
    assert_eq!(cell(&rig, 0, "n"), 2);
    let skipping = ops(&rig);
    let operator = Operator { token: None, name: "one".to_owned() };
    rig.executor.block_on(async move { skipping.world_skip(world_id(0), operator).await.unwrap() });
    let (ended, _life) = live_on(&rig);
    assert_eq!((ended, cell(&rig, 0, "n"), hold_of(&rig, 0)), (0, 3, None), "the skip was taken first");
}

#[test]
fn an_upgrade_is_taken_before_the_deadly_item() {
    let rig = rig_with_a_deadly_world(3, &["die", "add n"]);
    live_on(&rig);
    let mending = rig.clone();
    rig.executor.block_on(async move {
        let (manifest, descriptor) = mended_manifest();
        let blobs = mending.plane.blobs();
        blobs.put(mending.universe, Bytes::from(descriptor), &[]).await.unwrap();
        let manifest = blobs.put(mending.universe, Bytes::from(manifest.to_bytes()), &[]).await.unwrap();
        ops(&mending).register_manifest(manifest).await.unwrap();
        ops(&mending).world_upgrade(world_id(0), manifest, true).await.unwrap();
    });
    let (ended, _life) = live_on(&rig);
    assert_eq!((ended, cell(&rig, 0, "n"), hold_of(&rig, 0)), (0, 1, None));
    let verifying = ops(&rig);
    rig.executor.block_on(async move { verifying.verify_world(world_id(0)).await.unwrap() });
}

#[test]
fn a_retry_that_changes_nothing_ends_in_the_same_hold() {
    let rig = rig_with_a_deadly_world(5, &["die", "add n"]);
    let (_, life) = live_on(&rig);
    let first = hold_of(&rig, 0).unwrap();
    let retrying = ops(&rig);
    let operator = Operator { token: None, name: "one".to_owned() };
    rig.executor.block_on(async move { retrying.world_retry(world_id(0), operator).await.unwrap() });
    rig.executor.run_for(MINUTE);
    assert!(!life.node.is_running(), "it was tried again");
    let (ended, _life) = live_on(&rig);
    let again = hold_of(&rig, 0).unwrap();
    assert!((1..=limits::WORLD_DEATHS_MAX + 1).contains(&ended), "{ended}");
    assert_eq!((again.code, again.seq), (first.code, first.seq));
    (1..=OTHERS).for_each(|world| assert_eq!((cell(&rig, world, "n"), hold_of(&rig, world)), (3, None)));
}

/// Whatever kills a process, worlds that take their turns have nothing counted against them.
#[test]
fn lives_that_end_outside_of_first_cycles_count_against_no_world() {
    let rig = rig_with_a_deadly_world(9, &["add n"]);
    for life in 1..=10 {
        let running = live(&rig);
        running.node.crash();
        (0..=OTHERS).for_each(|world| send(&rig, world, &["add n"]));
        assert_eq!(cell(&rig, 1, "n"), 2 + life);
    }
    (0..=OTHERS).for_each(|world| assert_eq!(hold_of(&rig, world), None));
}

/// Something else ends each process soon after its start, always in the middle of the same world's first cycle.
#[test]
fn a_crash_loop_with_another_cause_puts_no_innocent_world_on_hold() {
    let rig = rig_with_a_deadly_world(4, &["# slow\nadd n"]);
    for _ in 0..10 {
        let life = live_for(&rig, SHORT);
        life.node.crash();
        rig.plane.engine.revive();
        assert_eq!(hold_of(&rig, 0), None);
    }
    let (ended, _life) = live_on(&rig);
    assert_eq!((ended, cell(&rig, 0, "n"), hold_of(&rig, 0)), (0, 1, None), "it was opened, and is cleared");
    (1..=OTHERS).for_each(|world| assert_eq!((cell(&rig, world, "n"), hold_of(&rig, world)), (3, None)));
}
