//! How often a worker looks at the shards of the ready queue, and which worlds it tries to acquire.

use crate::{SECOND, hints, rig_with, send, start, start_with, taken_of, taken_of_unleased};
use mundi_engine::{Engine, Transaction};
use mundi_runtime::{Plane, metrics::Metric};
use mundi_store::{
    keyspace::{assignment::Assignment, ready},
    protocol::AssignWorld,
    testing::world_id,
};

/// A hint that calls nobody, as that of a world whose lease became free silently, in a shard that nobody else writes to.
#[test]
fn busy_shards_do_not_put_off_the_look_at_a_quiet_one() {
    let rig = rig_with(1, 40);
    let quiet = (1..40).find(|n| ready::shard(world_id(*n)) != ready::shard(world_id(0))).unwrap();
    send(&rig, quiet, 1);
    let key = ready::key(rig.universe, ready::PRIORITY_NORMAL, world_id(quiet));
    let (removing, hint) = (rig.clone(), key.clone());
    let value = rig.executor.block_on(async move {
        let mut tx = removing.plane.engine.begin().await.unwrap();
        let value = tx.get(hint.as_bytes()).await.unwrap().unwrap();
        tx.delete(hint.as_bytes()).unwrap();
        tx.commit().await.unwrap();
        value
    });
    let _running = start(&rig, 1);
    rig.executor.run_for(SECOND);
    let writing = rig.clone();
    rig.executor.block_on(async move {
        let mut tx = writing.plane.engine.begin().await.unwrap();
        tx.put(key.as_bytes(), value).unwrap();
        tx.commit().await.unwrap();
    });
    for _ in 0..40 {
        send(&rig, 0, 1);
        rig.executor.run_for(SECOND);
    }
    assert_eq!(taken_of_unleased(&rig, quiet), 1);
}

/// Each look reads all hints of the shards that changed, in every process of a fleet.
#[test]
fn a_busy_ready_queue_is_looked_at_now_and_then_and_a_quiet_one_at_once() {
    let rig = rig_with(1, 40);
    let running = start(&rig, 1);
    let looks = || running.worker.metrics().get(Metric::ReadyScans);
    rig.executor.run_for(SECOND);
    let before = looks();
    for world in 0..40 {
        send(&rig, world, 1);
        rig.executor.run_for(SECOND / 1_000);
    }
    assert!((8..=10).contains(&(looks() - before)), "{} in 40 ms", looks() - before);
    rig.executor.run_for(SECOND);
    (0..40).for_each(|world| assert_eq!(taken_of(&rig, world), 1));
    let before = looks();
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND / 1_000);
    assert_eq!(looks() - before, 1);
}

/// Once it tried for each lease again and again, for as long as it lived.
#[test]
fn a_worker_does_not_try_for_worlds_that_have_nothing_to_do() {
    let rig = rig_with(5, 30);
    let holder = start_with(&rig, 1, |config| config.idle_release_ns = u64::MAX);
    (0..30).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    let other = start(&rig, 2);
    (0..30).for_each(|world| send(&rig, world, 1)); // the other one hears of all of them
    rig.executor.run_for(SECOND * 25);
    let begins = rig.plane.engine.counts().begins;
    rig.executor.run_for(SECOND * 100);
    let begins = rig.plane.engine.counts().begins - begins;
    assert!(begins < 100, "two heartbeats and one renewal every five seconds, not {begins} transactions");
    assert_eq!((holder.worker.worlds().len(), other.worker.worlds().len()), (30, 0));
    holder.node.crash();
    (0..30).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND * 21);
    assert_eq!(other.worker.worlds().len(), 30, "what has something to do is taken when its lease has run out");
}

/// Hints stand under the priority of the assignment, one per world. Which of them goes first is the table's to say.
#[test]
fn a_hint_moves_with_its_assignment_and_is_not_doubled() {
    let rig = rig_with(11, 40);
    (0..40).for_each(|world| send(&rig, world, 1));
    let assigning = rig.clone();
    rig.executor.block_on(async move {
        for n in 30..40 {
            let assignment = Assignment { desired: None, pinned: false, priority: 1, reason: None };
            let (universe, world) = (assigning.universe, world_id(n));
            assigning.plane.run(&AssignWorld { universe, world, assignment }).await.unwrap();
        }
    });
    assert_eq!(hints(&rig), 40, "a hint moves, and is not doubled");
    let at = |priority: u8| {
        let looking = rig.clone();
        rig.executor.block_on(async move {
            let mut found = 0;
            for n in 0..40 {
                let mut tx = looking.plane.engine.begin().await.unwrap();
                let key = ready::key(looking.universe, priority, world_id(n));
                found += usize::from(tx.get(key.as_bytes()).await.unwrap().is_some());
            }
            found
        })
    };
    assert_eq!((at(1), at(ready::PRIORITY_NORMAL)), (10, 30));
    let _running = start(&rig, 1);
    rig.executor.run_for(SECOND * 2);
    (0..40).for_each(|world| assert_eq!(taken_of(&rig, world), 1));
    assert_eq!(hints(&rig), 0, "and is taken back from where it stands");
    (30..40).for_each(|world| send(&rig, world, 1));
    assert_eq!((at(1), at(ready::PRIORITY_NORMAL)), (10, 0));
}
