//! Worlds run where they are assigned, also while an operator moves them at random.

use crate::{SECOND, id, rig_with, send, start, start_with, taken_of, taken_of_unleased};
use mundi_engine::{Engine, Transaction};
use mundi_model::WorldId;
use mundi_runtime::{Plane, metrics::Metric, testing::Rig};
use mundi_store::{
    keyspace::{assignment::Assignment, lease},
    protocol::AssignWorld,
    testing::{Rng, world_id},
};
use std::time::Duration;

/// Once acquire ignored the pin.
#[test]
fn a_world_runs_only_where_it_is_assigned() {
    let rig = rig_with(8, 4);
    let assigning = rig.clone();
    rig.executor.block_on(async move {
        for n in 0..4 {
            let assignment = Assignment { desired: Some(id(1 + n % 2)), pinned: true, priority: 0, reason: None };
            let (universe, world): (_, WorldId) = (assigning.universe, world_id(n));
            assigning.plane.run(&AssignWorld { universe, world, assignment }).await.unwrap();
        }
    });
    let workers = [start(&rig, 1), start(&rig, 2)];
    (0..4).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    for (n, running) in workers.iter().enumerate() {
        let mut worlds = running.worker.worlds();
        worlds.sort();
        let mut expected = [world_id(n as u64), world_id(n as u64 + 2)];
        expected.sort();
        assert_eq!(worlds, expected);
    }
}

/// A worker that is quicker than the placement gives the world up when it renews, although nobody tells it to.
#[test]
fn a_world_that_was_taken_before_it_was_assigned_moves_to_where_it_was_assigned() {
    let rig = rig_with(8, 1);
    let quick = start(&rig, 1);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND);
    assert_eq!(quick.worker.worlds(), [world_id(0)]);
    let assigned = start(&rig, 2);
    let assigning = rig.clone();
    rig.executor.block_on(async move {
        let assignment = Assignment { desired: Some(id(2)), pinned: false, priority: 0, reason: None };
        let (universe, world) = (assigning.universe, world_id(0));
        assigning.plane.run(&AssignWorld { universe, world, assignment }).await.unwrap();
    });
    rig.executor.run_for(SECOND * 30);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND * 30);
    assert_eq!((quick.worker.worlds(), assigned.worker.worlds()), (vec![], vec![world_id(0)]));
    assert_eq!(taken_of(&rig, 0), 2);
}

/// Found by the simulator: the orchestrator leaves such a world alone, so a worker that waited for it waited forever.
#[test]
fn a_world_that_was_assigned_to_nobody_runs_also_where_assignments_are_waited_for() {
    let rig = rig_with(9, 2);
    let assigning = rig.clone();
    rig.executor.block_on(async move {
        let assignment = Assignment { desired: None, pinned: false, priority: 0, reason: None };
        let (universe, world) = (assigning.universe, world_id(0));
        assigning.plane.run(&AssignWorld { universe, world, assignment }).await.unwrap();
    });
    let _running = start_with(&rig, 1, |config| config.takes_unassigned = false);
    (0..2).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    assert_eq!((taken_of_unleased(&rig, 0), taken_of_unleased(&rig, 1)), (1, 0));
}

/// Two workers, fifty worlds, and an operator who moves worlds about at random.
#[test]
fn two_workers_fight_and_nothing_is_lost_or_done_twice() {
    for seed in 0..5 {
        let rig = rig_with(seed, 50);
        let workers = [start(&rig, 1), start(&rig, 2)];
        let mut rng = Rng::new(seed);
        let mut sent = [0; 50];
        for _ in 0..150 {
            let world = rng.below(50);
            let count = 1 + rng.below(4);
            sent[usize::try_from(world).unwrap()] += count;
            send(&rig, world, count);
            let moved = rng.below(50);
            let to = 1 + rng.below(2);
            let (moving, fighting) =
                (rig.clone(), workers.iter().map(|running| running.worker.clone()).collect::<Vec<_>>());
            rig.executor.block_on(async move {
                let assignment = Assignment { desired: Some(id(to)), pinned: false, priority: 0, reason: None };
                let (universe, world) = (moving.universe, world_id(moved));
                moving.plane.run(&AssignWorld { universe, world, assignment }).await.unwrap();
                for (n, worker) in (1..).zip(&fighting) {
                    if n == to { worker.wake(world) } else { worker.revoke(world) }
                }
            });
            rig.executor.run_for(Duration::from_millis(rng.below(200)));
        }
        rig.executor.run_for(SECOND * 60);
        for (world, sent) in (0..).zip(sent) {
            assert_eq!(taken_of_any(&rig, world), sent, "seed {seed}, world {world}");
        }
        assert!(workers.iter().all(|running| running.worker.metrics().get(Metric::WorldFailures) == 0));
    }
}

/// As [`taken_of`], also for a world that nobody ever held.
fn taken_of_any(rig: &Rig, world: u64) -> u64 {
    let looking = rig.clone();
    let held = rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        tx.get(lease::key(looking.universe, world_id(world)).as_bytes()).await.unwrap().is_some()
    });
    if held { taken_of(rig, world) } else { 0 }
}
