//! A worker that drains, stops or dies, and the one that continues.

use crate::{SECOND, hints, id, rig_with, send, start, start_with, taken_of};
use mundi_runtime::{Plane, Spawn, control::Ops, metrics::Metric, testing::call};
use mundi_store::{Clock, protocol::ReleaseLease, testing::world_id};
use std::time::Duration;

#[test]
fn a_drained_worker_hands_over_in_less_than_a_second() {
    let rig = rig_with(7, 10);
    let first = start(&rig, 1);
    (0..10).for_each(|world| send(&rig, world, 5));
    rig.executor.run_for(SECOND);
    let second = start(&rig, 2);
    let (worker, clock) = (first.worker.clone(), rig.plane.clock.clone());
    let started_ns = clock.now_ns();
    rig.executor.block_on(async move { worker.drain().await });
    assert_eq!(first.worker.metrics().get(Metric::Snapshots), 10);
    (0..10).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND / 2);
    assert!(clock.now_ns() - started_ns < 1_000_000_000);
    assert_eq!((first.worker.worlds().len(), second.worker.worlds().len()), (0, 10));
    (0..10).for_each(|world| assert_eq!(taken_of(&rig, world), 6));
    assert!(!first.node.is_running(), "a drained worker leaves no task behind");
}

/// A hint that the ready watcher read just before the drain began must not bring a world in that nobody releases.
#[test]
fn a_worker_that_drains_takes_no_world_that_it_heard_of_a_moment_before() {
    for steps in 0.. {
        let rig = rig_with(3, 2);
        let first = start_with(&rig, 1, |config| config.idle_release_ns = u64::MAX);
        send(&rig, 0, 5);
        rig.executor.run_for(SECOND);
        send(&rig, 1, 1);
        (0..steps).for_each(|_| assert!(rig.executor.step()));
        if first.worker.worlds().len() > 1 {
            assert!(steps > 5);
            return;
        }
        let (worker, began_ns) = (first.worker.clone(), rig.executor.now_ns());
        Spawn::spawn(&first.node, Box::pin(async move { worker.drain().await }));
        while first.node.is_running() && rig.executor.now_ns() - began_ns < 60_000_000_000 {
            assert!(rig.executor.step());
        }
        assert!(!first.node.is_running(), "after {steps} steps: {:?} are not released", first.worker.worlds());
    }
}

/// The command `stop` may come before or after the process is asked to drain.
#[test]
fn a_drain_ends_also_if_the_worker_is_stopped_before_it_or_meanwhile() {
    for stopped_first in [true, false] {
        let rig = rig_with(3, 2);
        let first = start(&rig, 1);
        (0..2).for_each(|world| send(&rig, world, 1));
        rig.executor.run_for(SECOND);
        if stopped_first {
            first.worker.stop();
            rig.executor.run_for(SECOND);
        }
        let worker = first.worker.clone();
        Spawn::spawn(&first.node, Box::pin(async move { worker.drain().await }));
        if !stopped_first {
            (0..3).for_each(|_| assert!(rig.executor.step()));
            first.worker.stop();
        }
        rig.executor.run_for(SECOND);
        assert!(!first.node.is_running(), "stopped first: {stopped_first}");
    }
}

/// Failover with whole workers: the second one waits for the lease, and loses nothing.
#[test]
fn a_crashed_worker_is_succeeded_when_its_leases_run_out() {
    for seed in 0..20 {
        let rig = rig_with(seed, 5);
        let first = start(&rig, 1);
        (0..5).for_each(|world| send(&rig, world, 20));
        for _ in 0..seed * 13 {
            rig.executor.poll_one();
        }
        first.node.crash();
        let second = start(&rig, 2);
        rig.executor.run_for(SECOND * 25);
        (0..5).for_each(|world| assert_eq!(taken_of(&rig, world), 20, "seed {seed}"));
        assert_eq!(second.worker.metrics().get(Metric::WorldFailures), 0);
    }
}

/// A worker is suspended for longer than its leases live, with items waiting for its only runner; another one takes the worlds, and gives
/// them back. Those that still waited when the worker learned of it were forgotten, and their hints, which it had seen, called nobody.
#[test]
fn what_waited_when_its_lease_was_lost_is_taken_as_soon_as_it_can_be_had() {
    for polls in (0..600).step_by(20) {
        let rig = rig_with(polls, 20);
        let running = start_with(&rig, 1, |config| {
            (config.runners, config.lease_ttl_ns, config.renew_every_ns) = (1, 3_000_000_000, 750_000_000);
            config.rescan_ns = u64::MAX;
        });
        (0..20).for_each(|world| send(&rig, world, 1));
        rig.executor.run_for(SECOND);
        (0..20).for_each(|world| send(&rig, world, 1));
        for _ in 0..polls {
            rig.executor.poll_one(); // sooner or later the ready watcher has seen them, and the only runner is at work
        }
        running.node.pause();
        rig.executor.run_for(SECOND * 5);
        let other = rig.clone();
        rig.executor.block_on(async move {
            for world in (0..20).map(world_id) {
                let fence = other.acquire(world, id(9)).await.unwrap();
                other.plane.run(&ReleaseLease { fence, active_at_ns: None }).await.unwrap();
            }
        });
        running.node.resume();
        rig.executor.run_for(SECOND * 4);
        (0..20).for_each(|world| assert_eq!(taken_of(&rig, world), 2, "after {polls} polls, world {world}"));
    }
}

/// The hand-over itself crashes at every await: what was not given back expires, and the next worker continues.
#[test]
fn a_hand_over_that_dies_at_any_await_is_a_crash_like_any_other() {
    let prepare = || {
        let rig = rig_with(9, 2);
        let first = start_with(&rig, 1, |config| config.runners = 2);
        (0..2).for_each(|world| send(&rig, world, 3));
        rig.executor.run_for(SECOND);
        let worker = first.worker.clone();
        Spawn::spawn(&first.node, Box::pin(async move { worker.drain().await }));
        (rig, first)
    };
    let undisturbed = {
        let (rig, first) = prepare();
        let (mut steps, began_ns) = (0, rig.executor.now_ns());
        while first.node.is_running() {
            assert!(rig.executor.step());
            steps += 1;
        }
        assert!(
            rig.executor.now_ns() - began_ns < 100_000_000,
            "it waits for nothing but a transaction that was in its way"
        );
        steps
    };
    assert!(undisturbed > 50);
    for steps in 0..undisturbed {
        let (rig, first) = prepare();
        (0..steps).for_each(|_| assert!(rig.executor.step()));
        first.node.crash();
        let _second = start(&rig, 2);
        (0..2).for_each(|world| send(&rig, world, 1));
        rig.executor.run_for(SECOND * 25);
        (0..2).for_each(|world| assert_eq!(taken_of(&rig, world), 4, "after {steps} steps"));
    }
}

/// The holder in the process is told directly, and nobody else is: the hint must be there for whoever comes after it.
#[test]
fn what_was_told_to_the_holder_alone_is_found_when_it_dies() {
    for pause_ms in (0..600).step_by(20) {
        let rig = rig_with(pause_ms, 1);
        let first = start(&rig, 1);
        send(&rig, 0, 1);
        rig.executor.run_for(SECOND / 10 + Duration::from_millis(pause_ms));
        assert!(first.worker.holds(world_id(0)));
        let ops = Ops::new(rig.plane.clone(), rig.universe, first.calls.clone()).beside(first.worker.clone());
        rig.executor.block_on(async move { ops.enqueue_batch(world_id(0), vec![call("add n")]).await.unwrap() });
        first.node.crash();
        let _second = start(&rig, 2);
        rig.executor.run_for(SECOND * 70);
        assert_eq!(taken_of(&rig, 0), 2, "after {pause_ms} ms");
        assert_eq!(hints(&rig), 0, "it settles in the end");
    }
}
