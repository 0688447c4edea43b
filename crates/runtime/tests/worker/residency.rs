//! Residency of worlds in memory: idle worlds, the memory budget, leases and snapshots.

use crate::{SECOND, hints, rig_with, send, start, start_with, taken_of, taken_of_unleased};
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::Ops,
    metrics::{Metric, Timing},
    testing::Rig,
    worker::{Pace, Wish},
    world::{SnapshotPolicy, WorldHost},
};
use mundi_store::testing::world_id;
use std::{sync::Arc, time::Duration};

fn baseline(rig: &Rig, world: u64) -> mundi_model::Height {
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    rig.executor.block_on(async move { ops.describe_world(world_id(world)).await.unwrap().baseline.unwrap().height })
}

/// Once a world that fell idle was not looked at before something else arrived, however old its tail grew.
#[test]
fn a_snapshot_that_is_due_by_age_is_taken_of_a_world_that_rests() {
    let rig = rig_with(4, 2);
    let age = Duration::from_secs(600);
    let running = start(&rig, 1);
    send(&rig, 0, 3);
    rig.executor.run_for(Duration::from_secs(60));
    assert_eq!(running.worker.worlds(), [], "it was given back");
    assert_eq!(baseline(&rig, 0), mundi_model::Height::GENESIS);
    rig.executor.run_for(age);
    let taken = baseline(&rig, 0);
    assert!(taken > mundi_model::Height::GENESIS, "nobody sent anything since");
    assert_eq!(running.worker.metrics().get(Metric::Snapshots), 1);
    let restores = running.worker.metrics().get(Metric::Restores);
    rig.executor.run_for(3 * age);
    assert_eq!((baseline(&rig, 0), running.worker.metrics().get(Metric::Restores)), (taken, restores), "and once only");
    assert_eq!(hints(&rig), 0);
}

/// Once the age of a tail began again with each restore: a world that moves often was never snapshotted by age.
#[test]
fn a_restore_does_not_make_a_tail_younger() {
    let rig = rig_with(5, 1);
    let first = start(&rig, 1);
    send(&rig, 0, 3);
    rig.executor.run_for(SECOND);
    let written_ns = rig.plane.now_ns();
    first.node.crash();
    rig.executor.run_for(Duration::from_secs(400));
    let looking = rig.clone();
    let since_ns = rig.executor.block_on(async move {
        let world = world_id(0);
        let fence = mundi_store::Fence { universe: looking.universe, world, epoch: mundi_model::Epoch::INITIAL };
        WorldHost::restore(looking.plane.clone(), fence).await.unwrap().tail().since_ns
    });
    assert!(since_ns.unwrap() <= written_ns);
    let second = start(&rig, 2);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND);
    assert_eq!(second.worker.metrics().get(Metric::Snapshots), 0, "it is not old enough");
    rig.executor.run_for(Duration::from_secs(230));
    assert_eq!(second.worker.metrics().get(Metric::Snapshots), 1, "ten minutes after the first record");
}

#[test]
fn an_idle_world_is_released_and_comes_back() {
    let rig = rig_with(4, 3);
    let running = start(&rig, 1);
    (0..3).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    assert_eq!(running.worker.worlds().len(), 3);
    rig.executor.run_for(SECOND * 60);
    assert_eq!(running.worker.worlds(), []);
    send(&rig, 1, 2);
    rig.executor.run_for(SECOND);
    assert_eq!((taken_of(&rig, 1), running.worker.worlds().len()), (3, 1));
}

#[test]
fn leases_are_renewed_in_batches_while_worlds_are_resident() {
    let rig = rig_with(5, 30);
    let running = start_with(&rig, 1, |config| config.idle_release_ns = u64::MAX);
    (0..30).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND * 4);
    let commits = rig.plane.engine.counts().commits;
    rig.executor.run_for(SECOND * 20);
    assert!(running.worker.metrics().get(Metric::LeasesRenewed) >= 30 * 4);
    assert!(rig.plane.engine.counts().commits - commits < 40, "one transaction for all");
    let other = start(&rig, 2);
    (0..30).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    assert_eq!(
        (running.worker.worlds().len(), other.worker.worlds().len()),
        (30, 0),
        "an unexpired lease is not stolen"
    );
}

#[test]
fn the_memory_budget_evicts_the_least_recently_used() {
    let rig = rig_with(6, 40);
    let running = start_with(&rig, 1, |config| config.resident_bytes_max = 10 * 20 * 1024);
    (0..40).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    assert!(running.worker.worlds().len() <= 13, "{}", running.worker.worlds().len());
    (0..40).for_each(|world| assert_eq!(taken_of(&rig, world), 1));
}

#[test]
fn consumed_items_are_removed_after_their_grace_period() {
    let rig = rig_with(10, 1);
    let running = start_with(&rig, 1, |config| {
        config.snapshots = SnapshotPolicy { records: 1, ..SnapshotPolicy::default() };
        config.inbox_grace_ns = 5_000_000_000;
    });
    let compacted = || running.worker.metrics().get(Metric::InboxItemsCompacted);
    send(&rig, 0, 3);
    rig.executor.run_for(SECOND);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND);
    assert_eq!(compacted(), 0, "a caller may still come back");
    rig.executor.run_for(SECOND * 10);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND);
    assert!((3..=4).contains(&compacted()), "{}", compacted());
    assert_eq!(taken_of(&rig, 0), 5);
}

#[test]
fn a_running_world_is_snapshotted_by_records_by_bytes_or_by_age() {
    const NEVER: SnapshotPolicy = SnapshotPolicy { records: u64::MAX, bytes: u64::MAX, age_ns: u64::MAX };
    let taken_under = |seed: u64, policy: SnapshotPolicy| {
        let rig = rig_with(seed, 1);
        let running = start_with(&rig, 1, |config| config.snapshots = policy);
        let snapshots = || running.worker.metrics().get(Metric::Snapshots);
        send(&rig, 0, 1);
        rig.executor.run_for(SECOND * 6);
        assert_eq!(snapshots(), 0, "one event makes none due");
        send(&rig, 0, 10);
        rig.executor.run_for(SECOND);
        assert_eq!(taken_of(&rig, 0), 11);
        snapshots()
    };
    assert_eq!(taken_under(13, NEVER), 0);
    assert_eq!(taken_under(14, SnapshotPolicy { records: 10, ..NEVER }), 1);
    assert_eq!(taken_under(15, SnapshotPolicy { bytes: 1_000, ..NEVER }), 1);
    assert_eq!(taken_under(16, SnapshotPolicy { age_ns: 5_000_000_000, ..NEVER }), 1);
}

#[test]
fn renewals_are_timed() {
    let rig = rig_with(18, 1);
    let running = start(&rig, 1);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND * 11);
    assert_eq!(running.worker.metrics().times(Timing::LeaseRenewal).count(), 2);
}

/// A universe that may run nothing for an hour.
struct Spent;

impl Pace for Spent {
    fn wait(&self) -> Option<Duration> {
        Some(3_600 * SECOND)
    }
}

#[test]
fn a_universe_that_may_run_no_step_is_snapshotted_and_released_all_the_same() {
    let rig = rig_with(5, 2);
    let running = start(&rig, 1);
    (0..2).for_each(|world| send(&rig, world, 3));
    rig.executor.run_for(SECOND);
    running.worker.keep_pace(Arc::new(Spent));
    (0..2).for_each(|world| send(&rig, world, 1));
    rig.executor.run_for(SECOND);
    let before = baseline(&rig, 0);
    running.worker.keep_up(world_id(0), Wish { snapshot: true, export: None });
    rig.executor.run_for(SECOND);
    assert!(baseline(&rig, 0) > before, "a snapshot that an operator asks for");
    running.worker.revoke(world_id(1));
    rig.executor.run_for(SECOND);
    assert_eq!(running.worker.worlds(), [world_id(0)], "the other one was released");
    assert_eq!([0, 1].map(|world| taken_of_unleased(&rig, world)), [3, 3], "no step ran meanwhile");
    rig.executor.block_on({
        let worker = running.worker.clone();
        async move { worker.drain().await }
    });
    assert_eq!(running.worker.worlds(), []);
}
