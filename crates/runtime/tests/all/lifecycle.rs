//! The life cycle of a world: created once, forked from anywhere, paused, archived, deleted; and the control surface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_kernel::rehearse::Compare;
use mundi_model::{
    Code, Coded, Height, WorkerId, WorldAddress, WorldId,
    record::{EffectPolicy, InboxItem, Origin},
};
use mundi_runtime::{
    Plane, RuntimeError,
    calls::Calls,
    control::{Ops, RehearseRequest},
    lifecycle::ForkAt,
    testing::{Rig, TestPlane, cell, script_event, taken},
    world::{CycleBudget, Progress, WorldHost},
};
use mundi_store::{
    blob::Blobs,
    keyspace::{QueueShard, Shard, effect_pending, timer_due, world_meta::WorldState},
    protocol::{Branch, DeleteStep, DeleteWorld, IsReady, WorldCreated},
    testing::world_id,
};
use std::time::Duration;

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn ops(rig: &Rig) -> Ops<TestPlane> {
    Ops::new(rig.plane.clone(), rig.universe, Calls::default())
}

fn code<V>(result: Result<V, RuntimeError>) -> Code {
    result.err().expect("refused").code()
}

async fn host(rig: &Rig, world: WorldId) -> WorldHost<TestPlane> {
    rig.host(world, id(1)).await.unwrap()
}

async fn run_scripts(rig: &Rig, host: &mut WorldHost<TestPlane>, scripts: &[&str]) {
    rig.tell(host, scripts).await.unwrap();
}

fn item(script: &str) -> InboxItem {
    let origin = Origin::new(0);
    InboxItem { input: script_event(script), origin }
}

/// How many effects and timers of a world are queued.
async fn queued(rig: &Rig, world: WorldId) -> (usize, usize) {
    let (mut effects, mut timers) = (0, 0);
    for shard in Shard::all() {
        let mut tx = rig.plane.engine.begin().await.unwrap();
        let span = effect_pending::from(rig.universe, QueueShard::new("http", shard), None);
        let read = RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 100);
        for (key, bytes) in tx.range(read).await.unwrap().items {
            effects += usize::from(effect_pending::decode(&key, &bytes).unwrap().world == world);
        }
        let span = timer_due::due(rig.universe, shard, 0, u64::MAX);
        let read = RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 100);
        for (key, bytes) in tx.range(read).await.unwrap().items {
            timers += usize::from(timer_due::decode(&key, &bytes).unwrap().world == world);
        }
    }
    (effects, timers)
}

#[test]
fn a_world_is_created_once_and_only_with_a_manifest() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        assert_eq!(ops.world_create(world_id(1), rig.manifest, 7).await.unwrap(), WorldCreated::Now);
        assert_eq!(ops.world_create(world_id(1), rig.manifest, 7).await.unwrap(), WorldCreated::Before);
        assert_eq!(code(ops.world_create(world_id(1), rig.manifest, 8).await), Code::WorldExists);
        let unknown = mundi_model::Hash::of(b"no manifest");
        assert_eq!(code(ops.world_create(world_id(2), unknown, 7).await), Code::ManifestNotRegistered);
    });
}

#[test]
fn a_world_that_is_created_or_forked_under_a_name_has_it_at_once_and_one_that_was_there_gets_it() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        let called = |name: &str| name.parse::<WorldAddress>().unwrap();
        let name = async |world: &WorldAddress| {
            ops.describe_world(world.world(rig.universe)).await.unwrap().meta.name.unwrap_or_default()
        };
        let alice = called("alice");
        assert_eq!(ops.world_create(alice.clone(), rig.manifest, 7).await.unwrap(), WorldCreated::Now);
        assert_eq!(name(&alice).await, "alice");
        let bob = called("bob");
        let parent = alice.world(rig.universe);
        ops.world_fork(parent, bob.clone(), ForkAt::Newest, EffectPolicy::Suppress, 7).await.unwrap();
        assert_eq!(name(&bob).await, "bob");
        let carol = called("carol");
        ops.world_create(carol.world(rig.universe), rig.manifest, 7).await.unwrap();
        assert_eq!(name(&carol).await, "");
        assert_eq!(ops.world_create(carol.clone(), rig.manifest, 7).await.unwrap(), WorldCreated::Before);
        assert_eq!(name(&carol).await, "carol");
    });
}

/// A manifest that anyone may have put into the content store.
async fn put_manifest(rig: &Rig) -> mundi_model::Hash {
    let mut manifest = mundi_runtime::testing::manifest();
    manifest.events.insert("another".into(), mundi_kernel::manifest::Schema::anything());
    Blobs::put(&rig.plane.blobs, rig.universe, manifest.to_bytes().into(), &[]).await.unwrap()
}

#[test]
fn a_world_runs_only_on_what_was_registered() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        let manifest = put_manifest(&rig).await;
        rig.create(world).await.unwrap();
        assert_eq!(code(ops.world_create(world_id(2), manifest, 7).await), Code::ManifestNotRegistered);
        assert_eq!(code(ops.world_upgrade(world, manifest, true).await), Code::ManifestNotRegistered);
        let rehearse = RehearseRequest { world, candidate: manifest, from: None, to: None, compare: Compare::Outputs };
        assert_eq!(code(ops.rehearse_world(rehearse).await), Code::ManifestNotRegistered);
        ops.register_manifest(manifest).await.unwrap();
        ops.register_manifest(manifest).await.unwrap();
        assert_eq!(ops.world_create(world_id(2), manifest, 7).await.unwrap(), WorldCreated::Now);
        ops.world_upgrade(world, manifest, true).await.unwrap();
        ops.rehearse_world(rehearse).await.unwrap();
    });
}

#[test]
fn a_manifest_is_registered_only_with_a_program_that_is() {
    Rig::run(|rig| async move {
        let ops = ops(&rig);
        let program = Blobs::put(&rig.plane.blobs, rig.universe, "no program".into(), &[]).await.unwrap();
        let manifest = mundi_kernel::manifest::Manifest { program, ..mundi_runtime::testing::manifest() };
        let manifest = Blobs::put(&rig.plane.blobs, rig.universe, manifest.to_bytes().into(), &[]).await.unwrap();
        let registered = mundi_runtime::lifecycle::register_manifest(&rig.plane, rig.universe, manifest).await;
        assert_eq!(code(registered), Code::ManifestNotRegistered);
        ops.register_program(program).await.unwrap();
        let registered = mundi_runtime::lifecycle::register_manifest(&rig.plane, rig.universe, manifest).await;
        assert_eq!(code(registered), Code::ProgramUnknown, "it may be run, and nobody here can");
    });
}

/// A fork boots at its snapshot, and neither world sees inputs of the other.
#[test]
fn a_fork_boots_at_the_snapshot_and_goes_its_own_way() {
    Rig::run(|rig| async move {
        let (ops, parent, child) = (ops(&rig), world_id(1), world_id(2));
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        run_scripts(&rig, &mut original, &["put a 1\nemit e", "timer t 99999"]).await;
        let note = original.snapshot().await.unwrap().unwrap();
        run_scripts(&rig, &mut original, &["put a 2"]).await;
        let forked = ops.world_fork(parent, child, ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        assert_eq!((forked.created, forked.forked_at), (WorldCreated::Now, note.height));
        let again = ops.world_fork(parent, child, ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        assert_eq!(again.created, WorldCreated::Before);
        let mut branch = host(&rig, child).await;
        assert_eq!(cell(&mut branch, "a").await.unwrap(), b"1");
        assert_eq!(cell(&mut original, "a").await.unwrap(), b"2");
        assert_eq!(queued(&rig, child).await, (0, 1), "effects are cleared, timers go on");
        run_scripts(&rig, &mut branch, &["put a 3"]).await;
        assert_eq!(cell(&mut original, "a").await.unwrap(), b"2");
        let lineage = ops.world_lineage(child, 10).await.unwrap();
        assert_eq!(lineage.ancestors[0].parent, parent);
        let forks = ops.world_lineage(parent, 10).await.unwrap().forks;
        assert_eq!(forks, [Branch { world: child, forked_at: note.height }]);
        let live = world_id(3);
        ops.world_fork(parent, live, ForkAt::Newest, EffectPolicy::Live, 5).await.unwrap();
        assert_eq!(queued(&rig, live).await, (1, 1), "a live fork repeats what its parent waits for");
    });
}

/// A refusal names heights at which it would not have been one.
fn assert_valid(error: &RuntimeError, height: u64, head: u64) {
    match error {
        RuntimeError::ForkOutside { first, head: last, .. } => {
            assert_eq!((first.get(), last.get()), (1, head));
            assert!(height == 0 || height > head);
        }
        RuntimeError::MidStep { below, above, .. } => {
            assert!((below.get(), above.get()) == (height - 1, height + 1), "{error} at {height}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_running_world_is_forked_at_every_height_that_ends_a_step() {
    Rig::run(|rig| async move {
        let (ops, parent) = (ops(&rig), world_id(1));
        rig.create(parent).await.unwrap();
        let mut original = host(&rig, parent).await;
        run_scripts(&rig, &mut original, &["add n", "add n\nreply x"]).await;
        original.snapshot().await.unwrap();
        run_scripts(&rig, &mut original, &["add n\nemit a", "add n"]).await;
        let head = original.head().get();
        let (mut counts, mut refused) = (Vec::new(), 0);
        for height in 0..=head {
            let child = world_id(100 + height);
            let at = ForkAt::Height(Height::new(height));
            match ops.world_fork(parent, child, at, EffectPolicy::Suppress, 5).await {
                Ok(forked) => {
                    assert_eq!(forked.forked_at, Height::new(height));
                    let mut branch = host(&rig, child).await;
                    run_scripts(&rig, &mut branch, &["put own yes"]).await;
                    counts.push(taken(&mut branch).await.unwrap() - 1);
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::ForkInvalid, "{error}");
                    assert_valid(&error, height, head);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 3, "at birth, and after the ingress of the steps that gave a reply and an intent");
        // The last ones have also taken the cancellation of what was open.
        assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&5), "{counts:?}");
        let beyond = ForkAt::Height(Height::new(head + 1));
        let beyond = ops.world_fork(parent, world_id(99), beyond, EffectPolicy::Suppress, 5).await;
        assert_eq!(code(beyond.clone()), Code::ForkInvalid);
        assert_valid(&beyond.unwrap_err(), head + 1, head);
    });
}

/// Found by the simulator: a world whose deletion was refused was suspended for a minute.
#[test]
fn a_refused_deletion_gives_the_world_back() {
    Rig::run(|rig| async move {
        let (ops, parent) = (ops(&rig), world_id(1));
        rig.create(parent).await.unwrap();
        ops.world_fork(parent, world_id(2), ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        assert_eq!(code(ops.world_delete(parent).await), Code::WorldHasForks);
        rig.acquire(parent, id(1)).await.unwrap();
    });
}

/// Found by the simulator: such a branch shared no record, so nothing could replay it from genesis.
#[test]
fn a_branch_of_a_world_without_history_shares_its_first_record() {
    Rig::run(|rig| async move {
        let (ops, parent) = (ops(&rig), world_id(1));
        rig.create(parent).await.unwrap();
        let forked = ops.world_fork(parent, world_id(2), ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        assert_eq!(forked.forked_at, Height::new(1));
        let again = ops.world_fork(world_id(2), world_id(3), ForkAt::Newest, EffectPolicy::Suppress, 5).await.unwrap();
        assert_eq!(again.forked_at, Height::new(2));
        let journal = rig.journal(world_id(3)).await.unwrap();
        let registry = rig.plane.registry.clone();
        let mut objects = mundi_kernel::MemoryObjects::new();
        objects.put(mundi_runtime::testing::manifest().to_bytes());
        let mut replay = mundi_kernel::replay::Replay::from_genesis(&objects, registry, &journal[0]).unwrap();
        assert_eq!(replay.run(&objects, &journal[1..], None).unwrap(), 2);
    });
}

#[test]
fn a_fork_dies_at_every_await_and_is_made_whole_by_the_next_try() {
    let prepare = || {
        let rig = Rig::new(1);
        let preparing = rig.clone();
        rig.executor.block_on(async move {
            preparing.create(world_id(1)).await.unwrap();
            let mut host = host(&preparing, world_id(1)).await;
            run_scripts(&preparing, &mut host, &["add n\ntimer t 9", "add n"]).await;
        });
        rig
    };
    let fork = |rig: &Rig| {
        let ops = ops(rig);
        let at = ForkAt::Height(Height::new(4));
        async move { ops.world_fork(world_id(1), world_id(2), at, EffectPolicy::Live, 5).await }
    };
    let polls = {
        let rig = prepare();
        let before = rig.executor.polls();
        rig.executor.block_on(fork(&rig)).unwrap();
        rig.executor.polls() - before
    };
    assert!(polls > 10);
    for polls in 0..polls {
        let rig = prepare();
        let node = rig.executor.node();
        let dying = fork(&rig);
        mundi_runtime::Spawn::spawn(&node, Box::pin(async move { drop(dying.await) }));
        (0..polls).for_each(|_| assert!(rig.executor.poll_one()));
        node.crash();
        rig.executor.block_on(fork(&rig)).unwrap();
        let looking = rig.clone();
        rig.executor.block_on(async move {
            assert_eq!(queued(&looking, world_id(2)).await, (0, 1), "after {polls} polls");
            let mut branch = host(&looking, world_id(2)).await;
            assert_eq!(taken(&mut branch).await.unwrap(), 1);
        });
    }
}

#[test]
fn pause_archive_and_delete_are_idempotent_and_typed() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig), world_id(1));
        rig.create(world).await.unwrap();
        ops.world_pause(world).await.unwrap();
        ops.enqueue_ingress(world, item("add n"), Some("key")).await.unwrap();
        assert!(ops.enqueue_ingress(world, item("add n"), Some("key")).await.unwrap().before);
        ops.world_resume(world).await.unwrap();
        let mut running = host(&rig, world).await;
        run_scripts(&rig, &mut running, &[]).await;
        while running.turn(&CycleBudget::default()).await.unwrap() != Progress::Idle {}
        assert_eq!(taken(&mut running).await.unwrap(), 1);
        for _ in 0..2 {
            ops.world_archive(world).await.unwrap();
        }
        assert_eq!(code(ops.enqueue_ingress(world, item("add n"), None).await), Code::WorldArchived);
        assert_eq!(code(ops.acquire_lease(world, id(1), Duration::from_secs(1)).await), Code::WorldArchived);
        for _ in 0..2 {
            ops.world_unarchive(world).await.unwrap();
        }
        ops.enqueue_ingress(world, item("add n"), None).await.unwrap();
        assert_eq!(code(running.turn(&CycleBudget::default()).await), Code::LeaseFenced, "it was held until then");
        let mut running = host(&rig, world).await;
        while running.turn(&CycleBudget::default()).await.unwrap() != Progress::Idle {}
        assert_eq!(taken(&mut running).await.unwrap(), 2);
        for _ in 0..2 {
            ops.world_delete(world).await.unwrap();
        }
        assert_eq!(code(running.turn(&CycleBudget::default()).await), Code::LeaseFenced, "it was held until then");
        assert_eq!(code(ops.enqueue_ingress(world, item("add n"), None).await), Code::WorldDeleted);
        assert_eq!(code(ops.world_archive(world).await), Code::WorldDeleted);
        assert_eq!(code(ops.world_create(world, rig.manifest, 7).await), Code::WorldDeleted);
    });
}

#[test]
fn a_deletion_that_stopped_is_finished_and_an_archived_world_can_be_deleted() {
    Rig::run(|rig| async move {
        let (ops, [half, archived]) = (ops(&rig), [world_id(1), world_id(2)]);
        for world in [half, archived] {
            rig.create(world).await.unwrap();
        }
        let fence = rig.acquire(half, id(1)).await.unwrap();
        let step = DeleteWorld { fence, now_ns: rig.plane.now_ns() };
        assert_eq!(rig.plane.run(&step).await.unwrap().output, DeleteStep::More);
        ops.world_archive(archived).await.unwrap();
        let (begun_ns, lease_ns) = (rig.plane.now_ns(), 20_000_000_000);
        for world in [half, archived] {
            ops.world_delete(world).await.unwrap();
            assert_eq!(ops.describe_world(world).await.unwrap().meta.state, WorldState::Deleted);
        }
        assert!(rig.plane.now_ns() >= begun_ns + lease_ns, "whoever began it, and died, was waited for");
    });
}

#[test]
fn an_archived_world_has_no_hint_and_has_one_when_it_comes_back() {
    Rig::run(|rig| async move {
        let (ops, world, universe) = (ops(&rig), world_id(1), rig.universe);
        rig.create(world).await.unwrap();
        let is_ready = async || rig.plane.run(&IsReady { universe, world }).await.unwrap().output;
        ops.enqueue_ingress(world, item("add n"), None).await.unwrap();
        assert!(is_ready().await);
        for archived in [true, false] {
            if archived { ops.world_archive(world).await } else { ops.world_unarchive(world).await }.unwrap();
            assert_eq!(is_ready().await, !archived);
        }
    });
}

#[test]
fn leases_through_the_control_surface_are_fenced() {
    Rig::run(|rig| async move {
        let (ops, world, ttl) = (ops(&rig), world_id(1), Duration::from_secs(20));
        rig.create(world).await.unwrap();
        ops.assign_world(world, id(1), 3).await.unwrap();
        assert_eq!(code(ops.acquire_lease(world, id(2), ttl).await), Code::LeaseAssignedElsewhere);
        let first = ops.acquire_lease(world, id(1), ttl).await.unwrap();
        ops.renew_lease(world, id(1), first.epoch, ttl).await.unwrap();
        assert_eq!(ops.list_worker_worlds(id(1), None, 10).await.unwrap(), [world]);
        ops.unassign_world(world).await.unwrap();
        assert_eq!(ops.list_worker_worlds(id(1), None, 10).await.unwrap(), []);
        assert_eq!(code(ops.acquire_lease(world, id(2), ttl).await), Code::LeaseHeld);
        ops.release_lease(world, first.epoch).await.unwrap();
        let second = ops.acquire_lease(world, id(2), ttl).await.unwrap();
        assert!(second.epoch > first.epoch);
        assert_eq!(code(ops.renew_lease(world, id(1), first.epoch, ttl).await), Code::LeaseFenced);
        assert_eq!(code(ops.release_lease(world, first.epoch).await), Code::LeaseFenced);
    });
}
