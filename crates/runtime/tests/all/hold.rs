//! Worlds whose turns fail again and again are put on hold, and the others continue.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_engine::{Memory, Transaction};
use mundi_model::{
    Code, Coded, Hash, Height, UniverseId, WorkerId, cbor, limits,
    record::{Body, EffectPolicy, InboxItem, Input, Origin, Record},
};
use mundi_runtime::{
    Plane, Services,
    calls::Calls,
    control::Ops,
    lifecycle::ForkAt,
    metrics::{Metric, Metrics},
    testing::{Node, Rig, TestPlane, control, mended_manifest, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    StoreError,
    blob::{BlobError, Blobs},
    journal::NoSegments,
    keyspace::world_meta::Hold,
    protocol::{NewItem, WorldFilter},
    testing::{HeapBlobs, Probe, world_id},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const OTHERS: u64 = 5;

struct Running {
    node: Node,
    worker: WorldWorker<TestPlane>,
}

fn start(rig: &Rig, n: u64) -> Running {
    let node = rig.executor.node();
    let mut config = WorkerConfig::new(rig.universe, WorkerId::new(n).unwrap());
    config.runners = 2; // fewer than worlds: one that never comes back would be missed
    let worker = WorldWorker::start(rig.on(&node), config, Calls::default(), Arc::new(Metrics::default()));
    Running { node, worker }
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn item(input: Input) -> NewItem {
    let origin = Origin::new(0);
    NewItem { item: InboxItem { input, origin }, dedupe: None }
}

fn send(rig: &Rig, world: u64, scripts: &[&str]) {
    let (sending, items) = (rig.clone(), scripts.iter().map(|script| item(script_event(script))).collect());
    rig.executor.block_on(async move { sending.enqueue(world_id(world), items).await.unwrap() });
}

fn hold_of(rig: &Rig, world: u64) -> Option<Hold> {
    let ops = ops(rig);
    rig.executor.block_on(async move { ops.describe_world(world_id(world)).await.unwrap().meta.hold })
}

fn cell(rig: &Rig, world: u64, key: &str) -> u64 {
    let ops = ops(rig);
    let key = cbor::encode(&mundi_model::Value::Text(key.into()));
    let found =
        rig.executor.block_on(async move { ops.world_query(world_id(world), "cell", &key, None).await.unwrap() });
    found.try_into().map_or(0, u64::from_be_bytes)
}

/// World 0 cannot take its second item; the others can take all of theirs.
fn rig_with_a_broken_world() -> (Rig, Running) {
    let rig = Rig::new(7);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..=OTHERS {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    send(&rig, 0, &["add n", "add n\nbreak", "add n"]);
    (1..=OTHERS).for_each(|world| send(&rig, world, &["add n"; 3]));
    let running = start(&rig, 1);
    rig.executor.run_for(MINUTE);
    (rig, running)
}

#[test]
fn a_world_whose_turns_always_fail_is_put_on_hold_and_the_others_go_on() {
    let (rig, running) = rig_with_a_broken_world();
    let hold = hold_of(&rig, 0).expect("on hold");
    assert_eq!((hold.code.as_str(), hold.failures), ("STEP_ABANDONED", limits::WORLD_FAILURES_MAX));
    assert_eq!(cell(&rig, 0, "n"), 1, "what could be taken was");
    assert!(hold.height > Height::new(1) && hold.seq.is_some(), "{hold:?}");
    (1..=OTHERS).for_each(|world| assert_eq!((cell(&rig, world, "n"), hold_of(&rig, world)), (3, None)));
    assert_eq!(running.worker.metrics().get(Metric::WorldsHeld), 1);
    assert!(!running.worker.holds(world_id(0)));
    let ops = ops(&rig);
    let listed = rig.executor.block_on(async move {
        let filter = WorldFilter { on_hold: Some(true), ..WorldFilter::default() };
        ops.list_worlds(filter, None, 10).await.unwrap().items
    });
    assert_eq!(listed.iter().map(|found| found.world).collect::<Vec<_>>(), [world_id(0)]);
}

#[test]
fn a_hold_outlives_the_worker_and_what_arrives_waits() {
    let (rig, running) = rig_with_a_broken_world();
    running.node.crash();
    send(&rig, 0, &["add n"]);
    let other = start(&rig, 2);
    (1..=OTHERS).for_each(|world| send(&rig, world, &["add n"]));
    rig.executor.run_for(MINUTE);
    assert_eq!(other.worker.metrics().get(Metric::WorldFailures), 0, "nobody tries it");
    assert_eq!(hold_of(&rig, 0).unwrap().code, "STEP_ABANDONED");
    (1..=OTHERS).for_each(|world| assert_eq!(cell(&rig, world, "n"), 4));
    let (waiting, calling) = (ops(&rig), ops(&rig));
    let depth = rig.executor.block_on(async move { waiting.describe_world(world_id(0)).await.unwrap().inbox.items });
    assert_eq!(depth, 3);
    let refused = rig.executor.block_on(async move {
        calling.call(world_id(0), item(script_event("add n")).item, None, Duration::from_secs(5)).await.unwrap_err()
    });
    assert_eq!(refused.code(), Code::WorldOnHold);
}

#[test]
fn a_world_that_is_resumed_is_tried_again_and_held_again() {
    let (rig, running) = rig_with_a_broken_world();
    let first = hold_of(&rig, 0).unwrap();
    let resuming = ops(&rig);
    rig.executor.block_on(async move { resuming.world_resume(world_id(0)).await.unwrap() });
    assert_eq!(hold_of(&rig, 0), None);
    rig.executor.run_for(MINUTE);
    let again = hold_of(&rig, 0).expect("the cause is still there");
    assert!(again.since_ns > first.since_ns && again.code == first.code);
    assert_eq!(running.worker.metrics().get(Metric::WorldsHeld), 2);
    assert_eq!(cell(&rig, 0, "n"), 1);
}

#[test]
fn an_upgrade_releases_a_world_and_is_taken_before_what_it_failed_at() {
    let (rig, _running) = rig_with_a_broken_world();
    let mending = rig.clone();
    rig.executor.block_on(async move {
        let (manifest, descriptor) = mended_manifest();
        let blobs = mending.plane.blobs();
        blobs.put(mending.universe, Bytes::from(descriptor), &[]).await.unwrap();
        let manifest = blobs.put(mending.universe, Bytes::from(manifest.to_bytes()), &[]).await.unwrap();
        ops(&mending).register_manifest(manifest).await.unwrap();
        ops(&mending).world_upgrade(world_id(0), manifest, true).await.unwrap();
    });
    rig.executor.run_for(MINUTE);
    assert_eq!(hold_of(&rig, 0), None);
    assert_eq!(cell(&rig, 0, "n"), 3, "every item was taken, once");
    let looking = rig.clone();
    let records = rig.executor.block_on(async move { looking.journal(world_id(0)).await.unwrap() });
    let bodies: Vec<Body> = records.iter().map(|bytes| cbor::decode::<Record>(bytes).unwrap().body).collect();
    let held = |body: &&Body| matches!(body, Body::Held(held) if held.code == "STEP_ABANDONED");
    assert_eq!(bodies.iter().filter(held).count(), 1);
    let verifying = ops(&rig);
    rig.executor.block_on(async move { verifying.verify_world(world_id(0)).await.unwrap() });
}

#[test]
fn a_world_on_hold_can_be_forked_and_verified() {
    let (rig, _running) = rig_with_a_broken_world();
    let forking = ops(&rig);
    rig.executor.block_on(async move {
        forking.verify_world(world_id(0)).await.unwrap();
        let at = ForkAt::Height(forking.describe_world(world_id(0)).await.unwrap().head.unwrap().height);
        forking.world_fork(world_id(0), world_id(77), at, EffectPolicy::Suppress, 5_000).await.unwrap();
    });
    send(&rig, 77, &["add n"]);
    rig.executor.run_for(MINUTE);
    assert_eq!((cell(&rig, 77, "n"), hold_of(&rig, 77)), (2, None), "a fork has an inbox of its own");
}

#[test]
fn commands_behind_the_item_that_fails_reach_a_world_before_it_is_held() {
    let rig = Rig::new(3);
    let creating = rig.clone();
    rig.executor.block_on(async move { creating.create(world_id(0)).await.unwrap() });
    send(&rig, 0, &["break"]);
    let sending = rig.clone();
    rig.executor.block_on(async move { sending.enqueue(world_id(0), vec![item(control("pause"))]).await.unwrap() });
    let _running = start(&rig, 1);
    rig.executor.run_for(MINUTE);
    assert_eq!(hold_of(&rig, 0), None, "it is paused, and fails no more");
}

/// Why a content store that has everything does not give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// Every other read of an object does not find it.
    EveryOtherRead,
    /// It is another store: it gives nothing, and lacks whatever is looked for.
    NotMounted,
    /// It has lost all.
    Lost,
}

#[derive(Clone)]
struct TroubledBlobs {
    blobs: HeapBlobs,
    trouble: Arc<Mutex<Trouble>>,
    reads: Arc<Mutex<BTreeMap<Hash, u64>>>,
}

impl Blobs for TroubledBlobs {
    async fn put(&self, universe: UniverseId, bytes: Bytes, refs: &[Hash]) -> Result<Hash, StoreError> {
        self.blobs.put(universe, bytes, refs).await
    }

    async fn get(&self, universe: UniverseId, hash: Hash) -> Result<Bytes, StoreError> {
        let reads = *self.reads.lock().entry(hash).and_modify(|reads| *reads += 1).or_insert(1);
        match *self.trouble.lock() {
            Trouble::None => {}
            Trouble::EveryOtherRead if reads.is_multiple_of(2) => {}
            _ => return Err(BlobError::Corrupt { hash, what: "its body is missing".to_owned() }.into()),
        }
        self.blobs.get(universe, hash).await
    }

    async fn has_objects(&self, _: UniverseId) -> Result<bool, StoreError> {
        Ok(*self.trouble.lock() != Trouble::NotMounted)
    }

    async fn missing<T: Transaction>(
        &self,
        tx: &mut T,
        universe: UniverseId,
        hashes: &[Hash],
    ) -> Result<Vec<Hash>, StoreError> {
        self.blobs.missing(tx, universe, hashes).await
    }
}

type TroubledPlane = Services<Probe<Memory>, TroubledBlobs, NoSegments>;

/// A world with something to do, and a worker that meets trouble with the content store.
fn troubled(trouble: Trouble) -> (Rig, Arc<Mutex<Trouble>>, WorldWorker<TroubledPlane>) {
    let rig = Rig::new(5);
    let creating = rig.clone();
    rig.executor.block_on(async move { creating.create(world_id(0)).await.unwrap() });
    send(&rig, 0, &["add n"]);
    let Services { engine, blobs, segments, clock, entropy, registry, retry, .. } = rig.plane.clone();
    let trouble = Arc::new(Mutex::new(trouble));
    let blobs = TroubledBlobs { blobs, trouble: trouble.clone(), reads: Arc::default() };
    let spawner = Arc::new(rig.executor.node());
    let plane = Services { engine, blobs, segments, clock, entropy, registry, spawner, retry };
    let config = WorkerConfig::new(rig.universe, WorkerId::new(1).unwrap());
    let worker = WorldWorker::start(plane, config, Calls::default(), Arc::new(Metrics::default()));
    rig.executor.run_for(10 * MINUTE);
    (rig, trouble, worker)
}

#[test]
fn objects_that_are_found_at_the_second_read_are_no_reason_to_hold_a_world() {
    let (rig, trouble, worker) = troubled(Trouble::EveryOtherRead);
    assert!(worker.metrics().get(Metric::WorldFailures) > u64::from(limits::WORLD_FAILURES_MAX));
    assert_eq!((hold_of(&rig, 0), cell(&rig, 0, "n")), (None, 0));
    *trouble.lock() = Trouble::None;
    rig.executor.run_for(MINUTE);
    assert_eq!((hold_of(&rig, 0), cell(&rig, 0, "n")), (None, 1));
}

#[test]
fn attempts_at_an_object_store_that_is_not_mounted_do_not_count() {
    let (rig, trouble, worker) = troubled(Trouble::NotMounted);
    assert!(worker.metrics().get(Metric::ObjectsAbsent) > u64::from(limits::WORLD_FAILURES_MAX));
    assert_eq!(hold_of(&rig, 0), None);
    *trouble.lock() = Trouble::Lost;
    rig.executor.run_for(10 * MINUTE);
    let hold = hold_of(&rig, 0).expect("on hold");
    assert_eq!((hold.code.as_str(), hold.failures), ("BLOB_CORRUPT", limits::WORLD_FAILURES_MAX));
}
