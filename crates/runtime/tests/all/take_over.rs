//! Commands of an operator to a world from a process that does not run it: also while another process holds the world, and whatever crashes meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::{Code, Coded, WorkerId, WorldId, limits, record::SnapshotNote};
use mundi_runtime::{
    Plane, RuntimeError, Spawn,
    calls::Calls,
    control::Ops,
    metrics::Metrics,
    shell::{Shell, ShellConfig, WorkerCommands},
    testing::{Node, Rig, TestPlane, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    keyspace::{assignment::Assignment, world_meta::WorldState},
    protocol::AssignWorld,
    testing::world_id,
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn code<V>(result: Result<V, RuntimeError>) -> Code {
    result.err().expect("refused").code()
}

/// A worker with its mailbox, as a process of its own.
struct Running {
    node: Node,
    worker: WorldWorker<TestPlane>,
}

fn start(rig: &Rig, n: u64) -> Running {
    let node = rig.executor.node();
    let (plane, universe) = (rig.on(&node), rig.universe);
    let worker = WorldWorker::start(
        plane.clone(),
        WorkerConfig::new(universe, id(n)),
        Calls::default(),
        Arc::new(Metrics::default()),
    );
    let handler = WorkerCommands { plane: plane.clone(), worker: worker.clone() };
    let config = ShellConfig { bootstrap: true, ..ShellConfig::new(universe, id(n)) };
    let boot = async move { Shell::boot(plane, config, handler, Arc::default()).await.unwrap().0 };
    rig.executor.block_on(boot).start();
    Running { node, worker }
}

/// A world that worker 1 runs and that is assigned to it; with its newest snapshot.
fn held(rig: &Rig, world: WorldId) -> (Running, SnapshotNote) {
    let setting = rig.clone();
    let note = rig.executor.block_on(async move {
        setting.create(world).await.unwrap();
        let mut host = setting.host(world, id(1)).await.unwrap();
        setting.tell(&mut host, &["add n", "add n"]).await.unwrap();
        let note = host.snapshot().await.unwrap().unwrap();
        ops(&setting).release_lease(world, host.fence().epoch).await.unwrap();
        assign(&setting, world, id(1)).await;
        setting.send(world, vec![script_event("add n")]).await.unwrap();
        note
    });
    let running = start(rig, 1);
    rig.executor.run_for(SECOND);
    assert_eq!(running.worker.worlds(), [world]);
    (running, note)
}

async fn assign(rig: &Rig, world: WorldId, worker: WorkerId) {
    let assignment = Assignment { desired: Some(worker), pinned: false, priority: 128, reason: None };
    rig.plane.run(&AssignWorld { universe: rig.universe, world, assignment }).await.unwrap();
}

fn asked<V: Send + 'static, F: Future<Output = V> + Send + 'static>(
    rig: &Rig,
    ask: impl FnOnce(Ops<TestPlane>) -> F,
) -> V {
    rig.executor.block_on(ask(ops(rig)))
}

fn taken(rig: &Rig, world: WorldId) -> u64 {
    let reading = rig.clone();
    rig.executor.block_on(async move {
        let fence = mundi_store::Fence { universe: reading.universe, world, epoch: mundi_model::Epoch::INITIAL };
        let mut host = mundi_runtime::world::WorldHost::restore(reading.plane.clone(), fence).await.unwrap();
        mundi_runtime::testing::taken(&mut host).await.unwrap()
    })
}

fn send(rig: &Rig, world: WorldId) {
    let sending = rig.clone();
    rig.executor.block_on(async move { sending.send(world, vec![script_event("add n")]).await.unwrap() });
}

/// Once the lease was acquired under the caller's own id, and refused: `LEASE_HELD`, or `LEASE_ASSIGNED_ELSEWHERE`.
#[test]
fn a_world_that_a_worker_runs_is_promoted_and_goes_on_there() {
    let (rig, world) = (Rig::new(1), world_id(1));
    let (running, note) = held(&rig, world);
    let (begun_ns, height) = (rig.plane.now_ns(), note.height);
    assert_eq!(asked(&rig, move |ops| async move { ops.promote_baseline(world, height).await.unwrap() }), note);
    assert!(rig.plane.now_ns() - begun_ns < 1_000_000_000, "nobody waited for a lease to run out");
    send(&rig, world);
    rig.executor.run_for(SECOND);
    assert_eq!((running.worker.worlds(), taken(&rig, world)), (vec![world], 4));
}

#[test]
fn a_world_that_a_worker_runs_is_deleted_and_its_worker_drops_it() {
    let (rig, world) = (Rig::new(1), world_id(1));
    let (running, _) = held(&rig, world);
    for _ in 0..2 {
        asked(&rig, move |ops| async move { ops.world_delete(world).await.unwrap() });
    }
    let meta = asked(&rig, move |ops| async move { ops.describe_world(world).await.unwrap().meta });
    assert_eq!(meta.state, WorldState::Deleted);
    rig.executor.run_for(30 * SECOND);
    assert_eq!(running.worker.worlds(), []);
}

#[test]
fn a_holder_that_dies_is_succeeded_when_its_lease_has_run_out() {
    for verb in 0..2 {
        let (rig, world) = (Rig::new(1), world_id(1));
        let (running, note) = held(&rig, world);
        running.node.crash();
        match verb {
            0 => assert_eq!(
                asked(&rig, move |ops| async move { ops.promote_baseline(world, note.height).await.unwrap() }),
                note
            ),
            _ => assert!(asked(&rig, move |ops| async move { ops.take_snapshot(world).await.unwrap() }).is_some()),
        }
    }
}

#[test]
fn a_world_that_waits_for_a_worker_that_is_not_there_is_worked_on_at_once() {
    let (rig, world) = (Rig::new(1), world_id(1));
    let setting = rig.clone();
    rig.executor.block_on(async move {
        setting.create(world).await.unwrap();
        let mut host = setting.host(world, id(1)).await.unwrap();
        setting.tell(&mut host, &["add n"]).await.unwrap();
        ops(&setting).release_lease(world, host.fence().epoch).await.unwrap();
        assign(&setting, world, id(9)).await;
        let begun_ns = setting.plane.now_ns();
        let note = ops(&setting).take_snapshot(world).await.unwrap().unwrap();
        assert_eq!(ops(&setting).promote_baseline(world, note.height).await.unwrap(), note);
        ops(&setting).world_delete(world).await.unwrap();
        assert!(setting.plane.now_ns() - begun_ns < 1_000_000_000);
    });
}

#[test]
fn a_holder_that_keeps_the_lease_is_waited_for_within_a_bound() {
    let (rig, world) = (Rig::new(1), world_id(1));
    let setting = rig.clone();
    rig.executor.block_on(async move {
        setting.create(world).await.unwrap();
        let mut host = setting.host(world, id(1)).await.unwrap();
        setting.tell(&mut host, &["add n"]).await.unwrap();
        let note = host.snapshot().await.unwrap().unwrap();
        setting.tell(&mut host, &["add n"]).await.unwrap();
        let fence = host.fence();
        let keeping = setting.clone();
        setting.plane.spawner().spawn(Box::pin(async move {
            loop {
                let ttl = Duration::from_secs(20);
                let kept = ops(&keeping).renew_lease(world, id(1), fence.epoch, ttl).await;
                assert!(kept.is_ok(), "it was taken from it");
                keeping.plane.clock().sleep(SECOND).await;
            }
        }));
        let begun_ns = setting.plane.now_ns();
        assert_eq!(code(ops(&setting).take_snapshot(world).await), Code::LeaseHeld);
        assert_eq!(code(ops(&setting).promote_baseline(world, note.height).await), Code::LeaseHeld);
        let waited_ms = (setting.plane.now_ns() - begun_ns) / 1_000_000;
        assert!((2 * limits::TAKE_OVER_MS_MAX..2 * limits::TAKE_OVER_MS_MAX + 2_000).contains(&waited_ms));
        // What it asked for keeps nobody from the world any more.
        ops(&setting).release_lease(world, fence.epoch).await.unwrap();
        setting.acquire(world, id(2)).await.unwrap();
    });
}

/// The caller may go away at any await: the world is free at once, or as soon as the begun step ends.
#[test]
fn a_caller_that_goes_away_leaves_the_world_to_its_worker() {
    for polls in 0..120 {
        let (rig, world) = (Rig::new(1), world_id(1));
        let (running, note) = held(&rig, world);
        let (caller, asking) = (rig.executor.node(), ops(&rig));
        caller.spawn(Box::pin(async move { drop(asking.promote_baseline(world, note.height).await) }));
        (0..polls).for_each(|_| _ = rig.executor.poll_one());
        caller.crash();
        rig.executor.run_for(SECOND);
        send(&rig, world);
        rig.executor.run_for(SECOND);
        assert_eq!((running.worker.worlds(), taken(&rig, world)), (vec![world], 4), "after {polls} polls");
    }
}

/// A process that crashes in the middle keeps the world for as long as its lease or its request lasts, and no longer.
#[test]
fn a_process_that_dies_in_the_middle_keeps_the_world_for_seconds() {
    for polls in 0..120 {
        let (rig, world) = (Rig::new(1), world_id(1));
        let (_running, note) = held(&rig, world);
        let process = rig.executor.node();
        let asking = Ops::new(rig.on(&process), rig.universe, Calls::default());
        process.spawn(Box::pin(async move { drop(asking.promote_baseline(world, note.height).await) }));
        (0..polls).for_each(|_| _ = rig.executor.poll_one());
        process.crash();
        send(&rig, world);
        rig.executor.run_for(12 * SECOND);
        assert_eq!(taken(&rig, world), 4, "after {polls} polls");
    }
}

#[test]
fn two_operators_at_once_are_served_one_after_the_other() {
    let (rig, world) = (Rig::new(1), world_id(1));
    let (running, note) = held(&rig, world);
    let (height, own) = (note.height, ops(&rig));
    let both = async move {
        futures_util::future::join(own.promote_baseline(world, height), own.promote_baseline(world, height)).await
    };
    let (first, second) = rig.executor.block_on(both);
    assert_eq!((first.unwrap(), second.unwrap()), (note.clone(), note));
    rig.executor.run_for(SECOND);
    assert_eq!(running.worker.worlds(), [world]);
}
