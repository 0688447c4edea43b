//! The watcher: it dies at every await, runs twice, is switched off, and nothing is reused early.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use mundi_kernel::{
    Registry,
    lease_kernel::{
        self, LeaseKernel,
        command::{Command, NewResource, Request},
        config::PoolConfig,
        result::{Outcome, ResultCode},
    },
    manifest::Manifest,
    registry::native_descriptor,
};
use mundi_model::{
    Code, Coded, WorkerId, WorldId,
    pool::{ClientId, HolderId, LeaseAuthority, LeaseId, OperationId, ResourceId},
    watch::WatchPolicy,
};
use mundi_runtime::{
    calls::Calls,
    control::{Ops, Pool},
    lifecycle::register_trusted,
    metrics::Metrics,
    shell::{Shell, ShellConfig},
    testing::{Node, Rig, TestPlane},
    watcher::{Watcher, WatcherConfig},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::blob::Blobs;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const INTERVAL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(5);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

/// A pool of one resource, which is leased, in a process that runs it.
struct Setting {
    rig: Rig,
    ops: Ops<TestPlane>,
    pool: Pool,
    world: WorldId,
    lease: LeaseId,
    worlds: Node,
}

fn policy() -> WatchPolicy {
    WatchPolicy { silent_after_ms: Some(250), reclaim_after_ms: Some(1_000), ..WatchPolicy::default() }
}

async fn command(ops: &Ops<TestPlane>, world: WorldId, name: &str, command: Command) -> Outcome {
    let (client_id, operation_id) = (Some(ClientId::of_name("test")), Some(OperationId::of_name(name)));
    ops.pool_command(world, &Request { operation_id, client_id, command }, TIMEOUT).await.unwrap()
}

/// A process that runs worlds.
fn run_worlds(rig: &Rig, n: u64) -> Node {
    let worlds = rig.executor.node();
    let config = WorkerConfig { takes_unassigned: true, ..WorkerConfig::new(rig.universe, id(n)) };
    WorldWorker::start(rig.on(&worlds), config, Calls::default(), Arc::new(Metrics::default()));
    worlds
}

impl Setting {
    fn new(seed: u64) -> Self {
        let (mut rig, mut registry) = (Rig::new(seed), Registry::new());
        let program = registry.register_native(lease_kernel::NAME, lease_kernel::VERSION, LeaseKernel);
        rig.plane.registry = Arc::new(registry);
        let mut manifest = Manifest::new(program);
        lease_kernel::declare(&mut manifest);
        let worlds = run_worlds(&rig, 1);
        let setting = rig.clone();
        let set_up = async move {
            let (plane, universe) = (setting.plane.clone(), setting.universe);
            let descriptor = native_descriptor(lease_kernel::NAME, lease_kernel::VERSION);
            plane.blobs.put(universe, Bytes::from(descriptor), &[]).await.unwrap();
            let manifest = plane.blobs.put(universe, Bytes::from(manifest.to_bytes()), &[]).await.unwrap();
            register_trusted(&plane, universe, &[manifest]).await.unwrap();
            let ops = Ops::new(plane, universe, Calls::default());
            ops.pool_create("pool".parse().unwrap(), (1, PoolConfig::default()), manifest).await.unwrap();
            let pool = ops.pool(&"pool".parse().unwrap()).await.unwrap();
            let world = ops.pool_world(&pool, 0).unwrap();
            let (resource_id, holder_id) = (ResourceId::of_name("gpu"), Some(HolderId::of_name("ada")));
            let resources = vec![NewResource { resource_id, name: None, labels: Vec::new() }];
            command(&ops, world, "create", Command::CreateResource { resources }).await;
            let reserve = Command::Reserve { resource_id, holder_id, ttl_slots: 1_000 };
            let lease_id = command(&ops, world, "reserve", reserve).await.lease_id.unwrap();
            command(&ops, world, "activate", Command::Activate { lease_id, holder_id, lease_epoch: 1 }).await;
            (ops, pool, world, lease_id)
        };
        let (ops, pool, world, lease) = rig.executor.block_on(set_up);
        Self { rig, ops, pool, world, lease, worlds }
    }

    fn set(&self, policy: Option<WatchPolicy>) {
        let (ops, pool) = (self.ops.clone(), self.pool.clone());
        self.rig.executor.block_on(async move { ops.pool_set_watch(&pool, policy).await.unwrap() });
    }

    /// A watcher in a process of its own.
    fn watcher(&self, n: u64) -> Node {
        let node = self.rig.executor.node();
        let (plane, universe) = (self.rig.on(&node), self.rig.universe);
        let config = WatcherConfig { interval: INTERVAL, ..WatcherConfig::new(universe) };
        let ops = Ops::new(plane.clone(), universe, Calls::default());
        let watcher = Watcher::new(plane.clone(), ops, config, Arc::new(Metrics::default()));
        Shell::launch(plane, ShellConfig { bootstrap: true, ..ShellConfig::new(universe, id(n)) }, watcher);
        node
    }

    fn lease(&self) -> Value {
        let (ops, world, query) = (self.ops.clone(), self.world, json!({ "lease_id": self.lease }));
        let answer = async move { ops.pool_query(world, ("lease", query), None).await.unwrap() };
        self.rig.executor.block_on(answer)["lease"].clone()
    }

    fn beat(&self) -> Result<(), Code> {
        let (ops, pool, lease) = (self.ops.clone(), self.pool.clone(), self.lease);
        let authority = LeaseAuthority { epoch: 1, holder: HolderId::of_name("ada") };
        let beat = async move { ops.pool_beat(&pool, lease, authority).await.map_err(|error| error.code()) };
        self.rig.executor.block_on(beat)
    }
}

#[test]
fn a_watcher_that_dies_at_any_await_is_continued_by_the_next_one() {
    let mut crashes = 0;
    loop {
        let setting = Setting::new(crashes);
        setting.set(Some(policy()));
        let first = setting.watcher(7);
        for _ in 0..crashes * 3 {
            setting.rig.executor.step();
        }
        let is_over = setting.lease()["state"] == "revoked";
        first.crash();
        let _second = setting.watcher(8);
        setting.rig.executor.run_for(Duration::from_secs(5));
        let lease = setting.lease();
        assert_eq!(lease["state"], "revoked", "after {crashes}: {lease}");
        assert_eq!(lease["evidence"].as_array().unwrap().len(), 1, "after {crashes}: {lease}");
        let history = lease["history"].as_array().unwrap();
        assert_eq!(history.len(), 4, "after {crashes}: {lease}");
        let slots = |at: usize| history[at]["slot"].as_u64().unwrap();
        assert!(slots(3) > slots(2), "after {crashes}, a second of delay is a slot: {lease}");
        if is_over {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 20, "only {crashes} moments to die at");
}

#[test]
fn two_watchers_at_once_do_it_once() {
    let setting = Setting::new(1);
    setting.set(Some(policy()));
    let _both = [setting.watcher(7), setting.watcher(8)];
    setting.rig.executor.run_for(Duration::from_secs(5));
    let lease = setting.lease();
    assert_eq!((lease["evidence"].as_array().unwrap().len(), lease["history"].as_array().unwrap().len()), (1, 4));
}

#[test]
fn without_a_policy_nothing_happens_and_a_policy_is_noticed_when_it_is_set() {
    let setting = Setting::new(2);
    let _watcher = setting.watcher(7);
    setting.rig.executor.run_for(Duration::from_secs(300));
    assert_eq!(setting.lease()["state"], "active");
    setting.set(Some(WatchPolicy { reclaim_after_ms: None, ..policy() }));
    setting.rig.executor.run_for(Duration::from_secs(3));
    assert_eq!(setting.lease()["state"], "revoking", "an operator reclaims");
    assert_eq!(setting.beat(), Err(Code::StaleEpoch));
}

#[test]
fn a_holder_that_is_heard_keeps_its_lease_and_loses_it_when_it_is_silent() {
    let setting = Setting::new(3);
    setting.set(Some(policy()));
    let _watcher = setting.watcher(7);
    for _ in 0..60 {
        setting.beat().unwrap();
        setting.rig.executor.run_for(INTERVAL);
    }
    assert_eq!(setting.lease()["state"], "active");
    setting.rig.executor.run_for(Duration::from_secs(5));
    assert_eq!(setting.lease()["state"], "revoked");
}

#[test]
fn a_policy_that_is_taken_away_stops_a_watcher() {
    let setting = Setting::new(4);
    setting.set(Some(WatchPolicy { silent_after_ms: Some(10_000), ..policy() }));
    let _watcher = setting.watcher(7);
    setting.rig.executor.run_for(Duration::from_secs(5));
    setting.set(None);
    setting.rig.executor.run_for(Duration::from_secs(600));
    assert_eq!(setting.lease()["state"], "active");
}

/// Nobody runs the pool's world: the command that closes it waits in the inbox, and is carried out after the archiving was refused.
#[test]
fn a_pool_stays_in_service_if_its_close_is_answered_too_late() {
    let Setting { rig, ops, world, lease, worlds, .. } = Setting::new(5);
    let (resource_id, holder_id) = (ResourceId::of_name("gpu"), Some(HolderId::of_name("ada")));
    let release = Command::Release { lease_id: lease, holder_id, lease_epoch: 1 };
    let releasing = ops.clone();
    let released = rig.executor.block_on(async move { command(&releasing, world, "release", release).await });
    assert_eq!(released.result, ResultCode::Ok);
    worlds.crash();
    let archiving = ops.clone();
    let archived = rig.executor.block_on(async move { archiving.world_archive(world).await.map_err(|it| it.code()) });
    assert_eq!(archived, Err(Code::CallTimeout));
    let _worlds = run_worlds(&rig, 2);
    rig.executor.run_for(Duration::from_secs(60));
    let reserve = Command::Reserve { resource_id, holder_id, ttl_slots: 1_000 };
    let reserved = rig.executor.block_on(async move { command(&ops, world, "again", reserve).await });
    assert_eq!(reserved.result, ResultCode::Ok);
}
