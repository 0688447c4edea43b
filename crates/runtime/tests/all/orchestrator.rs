//! The orchestrator with real workers: placement, loss of a worker, rebalancing, pins, and two of them at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_model::WorkerId;
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::{Ops, Waits},
    metrics::{Metric, Metrics},
    orchestrator::{Orchestrator, OrchestratorConfig},
    shell::{Shell, ShellConfig, WorkerCommands},
    testing::{Node, Rig, TestPlane, script_event},
    worker::{WorkerConfig, WorldWorker},
};
use mundi_store::{
    keyspace::{assignment::Assignment, worker::WorkerRecord},
    protocol::{AssignWorld, ForgetAssignment, Heartbeat, Over, PlaceWorld, Placed, ReadPlacements},
    testing::world_id,
};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

struct Running {
    node: Node,
    worker: WorldWorker<TestPlane>,
}

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

/// A worker with its shell, as a process has them.
fn start(rig: &Rig, n: u64) -> Running {
    start_with(rig, n, |_| {})
}

fn start_with(rig: &Rig, n: u64, change: impl FnOnce(&mut WorkerConfig)) -> Running {
    let node = rig.executor.node();
    let plane = rig.on(&node);
    let mut config =
        WorkerConfig { idle_release_ns: u64::MAX, takes_unassigned: false, ..WorkerConfig::new(rig.universe, id(n)) };
    change(&mut config);
    let worker = WorldWorker::start(plane.clone(), config, Calls::default(), Arc::new(Metrics::default()));
    let handler = WorkerCommands { plane: plane.clone(), worker: worker.clone() };
    let config = ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(n)) };
    let booted = rig.executor.block_on(async move { Shell::boot(plane, config, handler, Arc::default()).await });
    booted.unwrap().0.start();
    Running { node, worker }
}

fn orchestrate(rig: &Rig) -> Node {
    orchestrate_with(rig, &Arc::default())
}

fn rig_with(worlds: u64) -> Rig {
    let rig = Rig::new(3);
    let creating = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..worlds {
            creating.create(world_id(n)).await.unwrap();
        }
    });
    rig
}

fn send_to_all(rig: &Rig, worlds: u64) {
    let sending = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..worlds {
            sending.send(world_id(n), vec![script_event("add n")]).await.unwrap();
        }
    });
}

fn load(running: &[&Running]) -> Vec<usize> {
    running.iter().map(|running| running.worker.worlds().len()).collect()
}

#[test]
fn worlds_follow_their_workers_come_and_go() {
    let rig = rig_with(60);
    let (first, second) = (start(&rig, 1), start(&rig, 2));
    rig.executor.run_for(SECOND);
    send_to_all(&rig, 60);
    let _orchestrators = [orchestrate(&rig), orchestrate(&rig)];
    rig.executor.run_for(SECOND * 10);
    send_to_all(&rig, 60);
    rig.executor.run_for(SECOND * 10);
    assert_eq!(load(&[&first, &second]).iter().sum::<usize>(), 60);
    first.node.crash();
    rig.executor.run_for(SECOND * 60);
    send_to_all(&rig, 60);
    rig.executor.run_for(SECOND * 5);
    assert_eq!(load(&[&second]), [60], "the survivor has them all");
    let third = start(&rig, 3);
    rig.executor.run_for(SECOND * 60);
    send_to_all(&rig, 60);
    rig.executor.run_for(SECOND * 5);
    let loads = load(&[&second, &third]);
    assert!(loads.iter().sum::<usize>() == 60 && loads[1] > 15, "the new one got its share: {loads:?}");
    let turns: u64 =
        [&first, &second, &third].iter().map(|running| running.worker.metrics().get(Metric::TurnItems)).sum();
    assert_eq!(turns, 240, "every event was taken once");
}

/// Once an orchestrator looked every five seconds, whatever the term of a lease.
#[test]
fn worlds_of_a_worker_that_died_run_elsewhere_as_soon_as_its_lease_has_run_out() {
    for died_after_ms in (0..5_000).step_by(250) {
        let rig = rig_with(60);
        let quick = |config: &mut WorkerConfig| {
            (config.lease_ttl_ns, config.renew_every_ns) = (3_000_000_000, 750_000_000);
        };
        let (first, second) = (start_with(&rig, 1, quick), start_with(&rig, 2, quick));
        let _orchestrator = orchestrate(&rig);
        send_to_all(&rig, 60);
        rig.executor.run_for(SECOND * 10 + Duration::from_millis(died_after_ms));
        first.node.crash();
        send_to_all(&rig, 60);
        rig.executor.run_for(Duration::from_millis(3_100));
        assert_eq!(load(&[&second]), [60], "{died_after_ms}");
    }
}

/// Once the look ended there, each time: worlds that come behind it in the order of ids waited for as long as it was in the archive.
#[test]
fn an_archived_world_whose_worker_died_keeps_no_other_one_from_its_place() {
    let rig = rig_with(20);
    let first = start(&rig, 1);
    let _orchestrator = orchestrate(&rig);
    send_to_all(&rig, 20);
    rig.executor.run_for(SECOND * 10);
    assert_eq!(load(&[&first]), [20]);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let archived = (0..20).map(world_id).min().unwrap();
    let archiving = ops.clone();
    rig.executor.block_on(async move { archiving.world_archive(archived).await.unwrap() });
    first.node.crash();
    let second = start(&rig, 2);
    let sending = rig.clone();
    rig.executor.block_on(async move {
        for world in (0..20).map(world_id).filter(|world| *world != archived) {
            sending.send(world, vec![script_event("add n")]).await.unwrap();
        }
    });
    rig.executor.run_for(SECOND * 30);
    assert_eq!(load(&[&second]), [19], "all that may run");
    rig.executor.block_on(async move { ops.world_unarchive(archived).await.unwrap() });
    send_to_all(&rig, 20);
    rig.executor.run_for(SECOND * 10);
    assert_eq!(load(&[&second]), [20]);
}

#[test]
fn a_pin_moves_a_world_at_once_and_no_orchestrator_undoes_it() {
    let rig = rig_with(8);
    let (first, second) = (start(&rig, 1), start(&rig, 2));
    let _orchestrator = orchestrate(&rig);
    send_to_all(&rig, 8);
    rig.executor.run_for(SECOND * 10);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let pinning = ops.clone();
    rig.executor.block_on(async move {
        for n in 0..8 {
            pinning.assign_world(world_id(n), id(2), 0).await.unwrap();
        }
    });
    send_to_all(&rig, 8);
    rig.executor.run_for(SECOND);
    assert_eq!(load(&[&first, &second]), [0, 8]);
    rig.executor.run_for(SECOND * 60);
    send_to_all(&rig, 8);
    rig.executor.run_for(SECOND);
    assert_eq!(load(&[&first, &second]), [0, 8]);
    let workers = rig.executor.block_on(async move { ops.workers().await.unwrap() });
    assert_eq!(workers.into_keys().collect::<Vec<_>>(), [id(1), id(2)]);
}

fn orchestrate_with(rig: &Rig, metrics: &Arc<Metrics>) -> Node {
    let (node, config) =
        (rig.executor.node(), ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(99)) });
    let orchestrator = Orchestrator::new(rig.on(&node), OrchestratorConfig::new(rig.universe), metrics.clone());
    Shell::launch(rig.on(&node), config, orchestrator);
    node
}

/// Once each world that was ever assigned to a worker took room there, also one that had rested for days: those of a worker that crashed
/// then stayed with it, and what was sent to them was acknowledged and never run.
#[test]
fn worlds_that_rest_take_no_room_and_those_of_a_dead_worker_run_elsewhere() {
    let rig = rig_with(60);
    let small = |config: &mut WorkerConfig| (config.worlds_max, config.idle_release_ns) = (10, 1_000_000_000);
    let (first, second) = (start_with(&rig, 1, small), start_with(&rig, 2, small));
    let _orchestrator = orchestrate(&rig);
    let taken = |running: &Running| running.worker.metrics().get(Metric::TurnItems);
    for n in 0..60 {
        let sending = rig.clone();
        rig.executor.block_on(async move { sending.send(world_id(n), vec![script_event("add n")]).await.unwrap() });
        rig.executor.run_for(SECOND / 2);
    }
    rig.executor.run_for(SECOND * 30);
    assert_eq!(taken(&first) + taken(&second), 60);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let left = rig.executor.block_on(async move {
        let mut left = ops.list_worker_worlds(id(1), None, 100).await.unwrap();
        left.extend(ops.list_worker_worlds(id(2), None, 100).await.unwrap());
        left
    });
    assert_eq!(left, [], "where worlds that rest run next is decided when they have something to do");
    // All of them at once, six times what one worker takes, and its only helper is gone.
    send_to_all(&rig, 60);
    rig.executor.run_for(SECOND / 4);
    first.node.crash();
    rig.executor.run_for(SECOND * 120);
    assert_eq!(taken(&first) + taken(&second), 120, "every event was taken");
}

#[test]
fn a_worker_that_is_full_refuses_worlds_and_they_are_told_to_wait_for_room() {
    let rig = rig_with(3);
    let full = start_with(&rig, 1, |config| (config.worlds_max, config.takes_unassigned) = (0, true));
    let metrics = Arc::new(Metrics::default());
    let _orchestrator = orchestrate_with(&rig, &metrics);
    send_to_all(&rig, 3);
    rig.executor.run_for(SECOND * 20);
    assert_eq!(load(&[&full]), [0]);
    assert!(full.worker.metrics().get(Metric::WorldsRefused) > 0);
    assert_eq!(metrics.get(Metric::WorldsWithoutRoom), 3);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let waits = |ops: Ops<TestPlane>| async move {
        let found = ops.describe_world(world_id(0)).await.unwrap();
        ops.waits_for(&found).await.unwrap()
    };
    assert_eq!(rig.executor.block_on(waits(ops.clone())), Some(Waits::Room { workers: 1 }));
    let with_room = start(&rig, 2);
    rig.executor.run_for(SECOND * 20);
    assert_eq!((load(&[&with_room]), metrics.get(Metric::WorldsWithoutRoom)), (vec![3], 0));
    assert_eq!(rig.executor.block_on(waits(ops)), None);
}

/// An assignment to a worker that turns out to be full goes to another one, and a pin stays.
#[test]
fn a_world_that_is_assigned_to_a_full_worker_is_placed_elsewhere_unless_it_is_pinned() {
    let rig = rig_with(2);
    let assigning = rig.clone();
    rig.executor.block_on(async move {
        for (n, pinned) in [(0, false), (1, true)] {
            let assignment = Assignment { desired: Some(id(1)), pinned, priority: 128, reason: None };
            let assign = AssignWorld { universe: assigning.universe, world: world_id(n), assignment };
            assigning.plane.run(&assign).await.unwrap();
        }
    });
    let (full, other) = (start_with(&rig, 1, |config| config.worlds_max = 0), start(&rig, 2));
    let _orchestrator = orchestrate(&rig);
    send_to_all(&rig, 2);
    rig.executor.run_for(SECOND * 30);
    assert_eq!(load(&[&full, &other]), [0, 1]);
    assert_eq!(other.worker.worlds(), [world_id(0)]);
}

/// A worker that is heard of for good, has room, and does nothing.
fn heard_of(rig: &Rig, n: u64) {
    let record = WorkerRecord {
        started_at_ns: 0,
        expires_at_ns: u64::MAX,
        worlds_max: 10,
        draining: false,
        schema_version: 1,
        address: None,
        worlds: Some(0),
        roles: None,
    };
    let heartbeat = Heartbeat { universe: rig.universe, worker: id(n), record: Some(record) };
    let plane = rig.plane.clone();
    rig.executor.block_on(async move { plane.run(&heartbeat).await.unwrap() });
}

/// Found by the simulator: a worker found no work and gave its world up, an item came in between, and whoever places worlds had
/// seen the item while the world was still assigned. The world was suspended for good.
#[test]
fn a_world_that_is_given_up_with_something_to_do_is_placed_again() {
    let rig = rig_with(1);
    heard_of(&rig, 1);
    let _orchestrator = orchestrate(&rig);
    send_to_all(&rig, 1);
    rig.executor.run_for(SECOND * 10);
    let (universe, world, plane) = (rig.universe, world_id(0), rig.plane.clone());
    let assigned = || {
        let plane = plane.clone();
        let read = ReadPlacements { universe, worlds: vec![world] };
        let mut found = rig.executor.block_on(async move { plane.run(&read).await.unwrap().output });
        found.pop().unwrap().assignment
    };
    let seen = assigned().expect("it is placed");
    let forget = ForgetAssignment { universe, world, seen };
    let forgetting = plane.clone();
    assert!(rig.executor.block_on(async move { forgetting.run(&forget).await.unwrap().output }));
    rig.executor.run_for(SECOND * 10);
    assert!(assigned().is_some(), "it stands still");
}

/// Once each look read all assignments there are.
#[test]
fn a_look_costs_as_much_with_many_assigned_worlds_as_with_few() {
    let reads = |worlds: u64| {
        let rig = rig_with(worlds);
        let idle = rig.clone();
        rig.executor.block_on(async move {
            for n in 0..worlds {
                let assignment = Assignment { desired: Some(id(1)), pinned: true, priority: 128, reason: None };
                let assign = AssignWorld { universe: idle.universe, world: world_id(n), assignment };
                idle.plane.run(&assign).await.unwrap();
            }
        });
        heard_of(&rig, 1);
        let _orchestrator = orchestrate(&rig);
        rig.executor.run_for(SECOND * 60); // it has looked through all of them, once
        let before = rig.plane.engine.operations();
        rig.executor.run_for(SECOND * 60);
        rig.plane.engine.operations() - before
    };
    let (few, many) = (reads(10), reads(500));
    assert!(few > 0 && few == many, "{few} and {many}");
}

/// An orchestrator does not overwrite a change that it did not see: here a pin that came between its look and its decision.
#[test]
fn a_decision_that_comes_late_changes_nothing() {
    let rig = rig_with(1);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (universe, world) = (acting.universe, world_id(0));
        let ops = Ops::new(acting.plane.clone(), universe, Calls::default());
        let to = Assignment { desired: Some(id(1)), pinned: false, priority: 128, reason: None };
        let place = |over| PlaceWorld { universe, world, over, to: to.clone(), mail: vec![] };
        ops.assign_world(world, id(2), 0).await.unwrap();
        assert_eq!(acting.plane.run(&place(Over::Seen(None))).await.unwrap().output, Placed::Late);
        assert_eq!(ops.list_worker_worlds(id(2), None, 10).await.unwrap(), [world]);
        assert_eq!(acting.plane.run(&place(Over::Anything)).await.unwrap().output, Placed::Now);
        assert_eq!(acting.plane.run(&place(Over::Seen(None))).await.unwrap().output, Placed::Before);
        assert_eq!(ops.list_worker_worlds(id(2), None, 10).await.unwrap(), []);
    });
}
