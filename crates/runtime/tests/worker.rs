//! World workers: fairness, fail-over, hand-over, idle worlds, callers, and two workers that fight.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_model::{
    WorkerId, WorldId,
    record::{InboxItem, Origin, ReplyOutcome},
};
use mundi_runtime::{
    Plane, Spawn,
    calls::Calls,
    control::Ops,
    metrics::{Metric, Metrics, Timing},
    testing::{Node, Rig, TestPlane, call, cell, script_event, taken},
    worker::{Pace, Wish, WorkerConfig, WorldWorker},
    world::{CycleBudget, SnapshotPolicy, WorldHost},
};
use mundi_store::{
    Clock,
    keyspace::{Shard, assignment::Assignment, lease, ready},
    protocol::{AssignWorld, NewItem, ReleaseLease},
    testing::{Rng, world_id},
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

/// What a world has come to, whoever holds it: replayed from its journal.
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

#[test]
fn worlds_run_when_something_arrives_and_settle_when_nothing_is_left() {
    let rig = rig_with(1, 20);
    let running = start(&rig, 1);
    (0..20).for_each(|world| send(&rig, world, 3));
    rig.executor.run_for(SECOND);
    for world in 0..20 {
        assert_eq!(taken_of(&rig, world), 3);
    }
    assert_eq!(hints(&rig), 0);
    assert_eq!(running.worker.worlds().len(), 20);
}

#[test]
fn a_hot_world_does_not_starve_the_others() {
    let rig = rig_with(2, 11);
    send(&rig, 0, 1_000);
    (1..11).for_each(|world| send(&rig, world, 1));
    let running = start_with(&rig, 1, |config| {
        config.runners = 1;
        config.cycle = CycleBudget { items_max: 10, wall_ms_max: 0, ..CycleBudget::default() };
    });
    while running.worker.metrics().get(Metric::Turns) < 30 {
        assert!(rig.executor.poll_one());
    }
    running.worker.stop();
    rig.executor.run_for(SECOND);
    (1..11).for_each(|world| assert_eq!(taken_of(&rig, world), 1, "world {world} waited too long"));
    assert!(taken_of(&rig, 0) < 500);
}

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
fn a_caller_gets_the_reply_of_the_turn_and_may_come_back_for_it() {
    let rig = rig_with(3, 1);
    let running = start(&rig, 1);
    let (asking, calls, world) = (rig.clone(), running.calls.clone(), world_id(0));
    let answer = rig.executor.block_on(async move {
        let place = asking.enqueue(world, vec![call("reply hello")]).await.unwrap()[0].seq.into();
        let first = calls.reply(&asking.plane, asking.universe, (world, place), false, SECOND).await.unwrap();
        let again =
            Calls::default().reply(&asking.plane, asking.universe, (world, place), false, SECOND).await.unwrap();
        assert_eq!(first, again);
        let silent = asking.enqueue(world, vec![call("add n")]).await.unwrap()[0].seq.into();
        let timeout = calls.reply(&asking.plane, asking.universe, (world, silent), false, SECOND).await.unwrap_err();
        assert_eq!(mundi_model::Coded::code(&timeout), mundi_model::Code::CallTimeout);
        first
    });
    assert!(matches!(answer, ReplyOutcome::Ok(_)));
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

/// Seed 000, integration test 1, with whole workers: the second one waits for the lease, and loses nothing.
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
fn a_world_that_is_behind_says_by_how_much_until_it_has_caught_up() {
    let rig = rig_with(17, 1);
    let running = start_with(&rig, 1, |config| {
        config.cycle = CycleBudget { items_max: 1, wall_ms_max: 0, ..CycleBudget::default() };
    });
    let origin = |enqueued_at_ns| Origin::new(enqueued_at_ns);
    rig.executor.run_for(SECOND);
    let sent_ns = rig.executor.now_ns() - 9;
    let item =
        move |_| NewItem { item: InboxItem { input: script_event("add n"), origin: origin(sent_ns) }, dedupe: None };
    let (sending, worker) = (rig.clone(), running.worker.clone());
    rig.executor.block_on(async move {
        sending.enqueue(world_id(0), (0..50).map(item).collect()).await.unwrap();
        let mut polls = 0;
        while worker.inbox_age_ns(world_id(0)) != 9 {
            polls += 1;
            assert!(polls < 1_000_000, "it never fell behind");
            sending.plane.engine.begin().await.unwrap(); // lets the others go on
        }
    });
    rig.executor.run_for(SECOND);
    assert_eq!((running.worker.inbox_age_ns(world_id(0)), taken_of(&rig, 0)), (0, 50));
    let times = running.worker.metrics().times(Timing::InboxToJournal);
    assert_eq!((times.count(), times.counts[0]), (50, 50), "each item is timed once");
}

#[test]
fn renewals_are_timed() {
    let rig = rig_with(18, 1);
    let running = start(&rig, 1);
    send(&rig, 0, 1);
    rig.executor.run_for(SECOND * 11);
    assert_eq!(running.worker.metrics().times(Timing::LeaseRenewal).count(), 2);
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
